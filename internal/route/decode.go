package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode reads a table in the form that Encode writes. It checks the form only;
// [Table.Validate] checks the meaning. All errors of the form are reported at once,
// each as a *[refusal.Refusal].
func Decode(r io.Reader) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxTableBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the routing table: %w", err)
	}
	if len(data) > MaxTableBytes {
		return nil, fmt.Errorf("the routing table is larger than %d MiB", MaxTableBytes>>20)
	}
	if !json.Valid(data) {
		return nil, syntaxError(data)
	}
	if err := checkForm(data); err != nil {
		return nil, err
	}
	table := new(Table)
	if err := json.Unmarshal(data, table); err != nil {
		return nil, fmt.Errorf("read the routing table: %w", err)
	}
	return table, nil
}

// syntaxError returns the line and column where the text stops being JSON.
func syntaxError(data []byte) error {
	err := json.Unmarshal(data, new(json.RawMessage))
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return fmt.Errorf("the routing table is not JSON: %w", err)
	}
	before := data[:min(int(syntax.Offset), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Errorf("the routing table is not JSON: line %d, column %d: %w", line, column, err)
}
