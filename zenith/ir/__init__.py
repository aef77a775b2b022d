"""The intermediate representation: sizes, types, primitives, the graph, its text form, verifier and interpreter."""
