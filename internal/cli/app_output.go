package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// How results are printed.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
)

// outputFlag is -o of a command that knows some of the forms.
type outputFlag struct {
	form    string
	allowed []string
}

func newOutputFlag(command *cobra.Command, allowed ...string) *outputFlag {
	output := &outputFlag{form: outputTable, allowed: append([]string{outputTable}, allowed...)}
	command.Flags().StringVarP(&output.form, "output", "o", outputTable, "how to print it: "+strings.Join(output.allowed, ", "))
	return output
}

// check refuses a form that there is not.
func (o *outputFlag) check() error {
	if !slices.Contains(o.allowed, o.form) {
		return usageError{fmt.Errorf("--output %q is not known: choose one of %s", o.form, strings.Join(o.allowed, ", "))}
	}
	return nil
}

// encode prints a value as JSON or YAML.
func (o *outputFlag) encode(w io.Writer, value any) error {
	if o.form == outputYAML {
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return writeJSON(w, value)
}

// bareObject is an object without what only the API server reads.
func bareObject(object *unstructured.Unstructured) map[string]any {
	bare := object.DeepCopy()
	bare.SetManagedFields(nil)
	return bare.Object
}

// table prints rows in columns. Cells are made safe for terminals.
type table struct {
	w io.Writer
}

func newTable(w io.Writer) (table, func() error) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return table{columns}, columns.Flush
}

func (t table) row(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	_, _ = fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t")) // Flush has the error
}

// shortRevision is a commit as people know it; versions stay as they are.
func shortRevision(revision string) string {
	const commitLength, shown = 40, 7
	if len(revision) == commitLength && strings.Trim(revision, "0123456789abcdef") == "" {
		return revision[:shown]
	}
	return revision
}

// shownRevision is that of a source, or of each of several.
func shownRevision(revision string, revisions []string) string {
	if len(revisions) == 0 {
		return shortRevision(revision)
	}
	var short []string
	for _, each := range revisions {
		short = append(short, shortRevision(each))
	}
	return strings.Join(short, ",")
}

// orNone shows what is empty.
func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shownTime is a time for people, the same everywhere.
func shownTime(at *metav1.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// shownSource is a source in one line.
func shownSource(source *v1alpha1.ApplicationSource) string {
	text := source.RepoURL
	switch {
	case source.Chart != "":
		text += " chart " + source.Chart
	case source.Path != "":
		text += " path " + source.Path
	}
	revision := source.TargetRevision
	if revision == "" {
		revision = "HEAD"
	}
	text += " at " + shortRevision(revision)
	if source.Ref != "" {
		text += " as $" + source.Ref
	}
	return text
}
