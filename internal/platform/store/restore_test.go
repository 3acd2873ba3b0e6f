package store

import (
	"bytes"
	"testing"
)

// Whatever a backup has, only values of the known kinds for tables and columns
// with harmless names come out, and never a row without its columns.
func FuzzBackup(f *testing.F) {
	head := `{"format":"slipway-backup","version":1,"schema":1,"createdAt":"2026-01-01T00:00:00Z"}` + "\n"
	table := `{"table":"users","columns":["id","at","on","b"],"kinds":["text","number","flag","bytes"]}` + "\n"
	f.Add([]byte(head + table + `["a",1,true,"AA=="]` + "\n"))
	f.Add([]byte(head + table + `["a",1.5,null,"?"]` + "\n" + `{"end":true,"rows":1,"sha256":""}`))
	f.Add([]byte(head + `[]` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		header, err := readLines(bytes.NewReader(text), backupVisitor{
			table: func(table backupTable) error {
				for _, name := range append([]string{table.Table}, table.Columns...) {
					if !sqlName.MatchString(name) {
						t.Fatalf("the name %q comes out", name)
					}
				}
				return nil
			},
			row: func(table backupTable, values []any) error {
				if len(values) == 0 || len(values) != len(table.Columns) {
					t.Fatalf("%d values for %d columns", len(values), len(table.Columns))
				}
				for i, value := range values {
					switch value.(type) {
					case string, int64, bool, []byte:
					default:
						t.Fatalf("value %d is a %T", i, value)
					}
				}
				return nil
			},
		})
		if err == nil && header.Schema < 1 {
			t.Fatalf("accepted with the header %+v", header)
		}
	})
}
