"""Pictures of graphs, at most a screen wide: what is folded in them opens at a click.

In a straight line: graph -> outline (:mod:`.outline`: modules and equal layers as single boxes) -> one drawing a level
(:mod:`.drawing`: boxes and edges) -> places (:mod:`.layout`, or Graphviz: :mod:`.graphviz`) -> SVG (:mod:`.svg`) and
HTML (:mod:`.page`).
"""
