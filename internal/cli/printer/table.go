package printer

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes rows in columns. Cells are made printable, which also replaces
// tabs and line breaks that would shift the columns.
type Table struct {
	w io.Writer
}

// NewTable returns a table on w. Nothing is written before flush is called.
func NewTable(w io.Writer) (Table, func() error) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return Table{columns}, columns.Flush
}

// Row adds a row and changes cells in place. Empty cells at the end are
// dropped, so that lines have no trailing blanks.
func (t Table) Row(cells ...string) {
	for i := range cells {
		cells[i] = Printable(cells[i])
	}
	_, _ = fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t")) // Flush has the error
}

// List prints a table with a row for each element of a list.
func List[T any](w io.Writer, header []string, list []T, row func(T) []string) error {
	rows, flush := NewTable(w)
	rows.Row(header...)
	for _, one := range list {
		rows.Row(row(one)...)
	}
	return flush()
}

// Section prints a list below an empty line, and nothing if the list is
// empty.
func Section[T any](w io.Writer, header []string, list []T, row func(T) []string) error {
	if len(list) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the flush of the table has the error
	return List(w, header, list, row)
}
