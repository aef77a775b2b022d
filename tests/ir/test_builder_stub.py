"""The types of the builder's methods are those of the registry."""

from docs.make_builder_stub import stub
from zenith.ir.primitive import all_primitives


def test_the_stub_is_up_to_date(request):
    text = (request.config.rootpath / "zenith/ir/builder_methods.pyi").read_text()
    assert text == stub(), "run `make docs`"
    assert all(f"    def {primitive.name}(" in text for primitive in all_primitives())
