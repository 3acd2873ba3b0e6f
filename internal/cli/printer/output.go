// Package printer writes the results of commands: tables, JSON and YAML for the
// --output flag, and notes for the user.
//
// Results go to standard output, notes to standard error. Text that comes from
// a cluster or a platform passes Printable first, so that it cannot send
// control sequences to a terminal.
package printer

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/cli/exit"
)

// The forms of output. Table and wide are for people and may change between
// versions; the others are stable for scripts.
const (
	FormTable = "table"
	FormWide  = "wide"
	FormJSON  = "json"
	FormYAML  = "yaml"
	FormName  = "name"
)

// Output is the --output flag of a command that supports some of the forms.
// Its value is checked before the command runs.
type Output struct {
	// Form is the value of the flag.
	Form string
}

// NewOutput adds the flag to a command. The table is the default and always
// allowed.
func NewOutput(command *cobra.Command, allowed ...string) *Output {
	return NewOutputOf(command, append([]string{FormTable}, allowed...)...)
}

// NewOutputOf adds the flag to a command that has these forms, of which the
// first is the default. A form that the command does not have is refused
// before it runs, so that a typo needs no reachable server.
func NewOutputOf(command *cobra.Command, allowed ...string) *Output {
	output := &Output{Form: allowed[0]}
	forms := strings.Join(allowed, ", ")
	command.Flags().StringVarP(&output.Form, "output", "o", output.Form, "output format: "+forms)
	command.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(allowed, output.Form) {
			return exit.UsageError{Err: fmt.Errorf("--output %q is not known: choose one of %s", output.Form, forms)}
		}
		return nil
	}
	return output
}

// Encode writes a value as YAML for that form, and as JSON for every other.
func (o *Output) Encode(w io.Writer, value any) error {
	if o.Form == FormYAML {
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return WriteJSON(w, value)
}

// ProtoValue returns a message as a JSON value. Fields with their default value
// are present, so that scripts can rely on them.
func ProtoValue(message proto.Message) (any, error) {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	var value any
	err = json.Unmarshal(text, &value)
	return value, err
}

// Show writes a message as JSON or YAML, or calls people to write it as text
// for the forms table and wide.
func Show(command *cobra.Command, output *Output, message proto.Message, people func(io.Writer) error) error {
	if output.Form == FormTable || output.Form == FormWide {
		return people(command.OutOrStdout())
	}
	value, err := ProtoValue(message)
	if err != nil {
		return err
	}
	return output.Encode(command.OutOrStdout(), value)
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// Manifests and messages keep <, > and & readable; no browser parses this.
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
