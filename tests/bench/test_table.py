import io

from headway.bench.row import Row
from headway.bench.show import remarks, table
from headway.render.table import cell_text, console_for, print_tables


def printed(*rows):
    stream = io.StringIO()
    print_tables(console_for(stream), "", [table(rows, title="toy processor")], remarks(rows))
    return stream.getvalue()


def cells(row):
    return [cell_text(cell) for cell in table([row]).rows[0]]


def test_a_note_with_brackets_is_printed_as_it_is():
    row = Row("toy", "sum", "L5", "float32", note="shapes [(2, 3)] and [/dim] [bold]", verdict="not measured")
    assert "shapes [(2, 3)] and [/dim] [bold]" in printed(row)


def test_figures_have_three_digits_or_thousands():
    small = Row("toy", "sum", "L5", "float32", headway=0.12345, share_of_limit=0.456, spread=0.0312)
    large = Row("toy", "sum", "L5", "float32", headway=106475.3, verdict="missed", target="at most 1 x")
    assert cells(small)[3:8] == ["0.123 ms", "–", "–", "3%", "46%"]
    assert cells(large)[3] == "106,475 ms"
    assert "missed" in printed(large)
    assert printed(small).count("L5") == 1
