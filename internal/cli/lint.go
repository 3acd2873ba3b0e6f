package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// lintFinding is one line of lint.
type lintFinding struct {
	// Severity is error, or warning for what may be right in the cluster.
	Severity string          `json:"severity"`
	File     string          `json:"file,omitempty"`
	Object   string          `json:"object,omitempty"`
	Field    string          `json:"field,omitempty"`
	Reason   snapshot.Reason `json:"reason,omitempty"`
	Message  string          `json:"message"`
}

const (
	lintError   = "error"
	lintWarning = "warning"
)

func lintCommand() *cobra.Command {
	given := &offlineFlags{}
	var strict bool
	output := "text"
	command := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Say what of manifests the edge would refuse",
		Long: `Reads manifests as the edge reads a cluster, and lists everything that it would
refuse, with the reason: nothing is sent to a cluster. What is named and not in
the manifests is a warning, because it may be in the cluster: Secrets should not
be in Git. The exit code is 1 when there is an error.`,
		Example: `  slipway lint -f deploy/
  helm template chart | slipway lint -f -
  slipway lint -f deploy/ --config-file edge.yaml --strict`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("--output %q is neither text nor json", output)}
			}
			if len(given.files) == 0 {
				return usageError{errors.New("nothing to read: name manifests with -f FILE, a directory, or - for the input")}
			}
			judge, err := given.load(command)
			if err != nil {
				return err
			}
			defer judge.close()
			findings := judge.findings(strict)
			if output == "json" {
				if err := writeJSON(command.OutOrStdout(), findings); err != nil {
					return err
				}
			} else if err := printFindings(command.OutOrStdout(), findings, judge); err != nil {
				return err
			}
			return lintVerdict(findings)
		},
	}
	given.add(command)
	command.Flags().BoolVar(&strict, "strict", false, "make warnings errors")
	command.Flags().StringVar(&output, "output", output, "how to print it: text or json")
	return command
}

// findings are everything that is wrong, sorted by file and object.
func (o *offline) findings(strict bool) []lintFinding {
	findings := []lintFinding{}
	for _, finding := range o.set.Findings {
		findings = append(findings, lintFinding{
			Severity: lintError, File: finding.File, Object: finding.Object.String(), Message: finding.Message,
		})
	}
	for _, refusal := range o.engine.Refusals() {
		if refusal.Reason == snapshot.NotReady {
			continue // a certificate that the edge will fetch is nothing to repair
		}
		severity := lintError
		if refusal.Reason == snapshot.NotFound && !strict {
			severity = lintWarning
		}
		findings = append(findings, lintFinding{
			Severity: severity, File: o.set.Files[refusal.Object], Object: refusal.Object.String(),
			Field: refusal.Field, Reason: refusal.Reason, Message: refusal.Message,
		})
	}
	slices.SortStableFunc(findings, func(a, b lintFinding) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Object, b.Object))
	})
	return findings
}

func printFindings(w io.Writer, findings []lintFinding, judge *offline) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, finding := range findings {
		message := finding.Message
		if finding.Field != "" {
			message = finding.Field + ": " + message
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", finding.Severity, printable(finding.File), printable(finding.Object), printable(message))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	ours, others := judge.sites()
	_, err := fmt.Fprintf(w, "%d Ingress(es) would be served, %d belong to others, %d object(s) of other kinds were passed over.\n",
		len(ours), len(others), judge.set.Passed)
	return err
}

// sites are the Ingresses, ours and those of others.
func (o *offline) sites() (ours, others []snapshot.Ref) {
	for namespace, name := range o.facts.Names(snapshot.Ingress) {
		ref := snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: name}
		if o.engine.Ours(ref) {
			ours = append(ours, ref)
		} else {
			others = append(others, ref)
		}
	}
	slices.SortFunc(ours, snapshot.Ref.Compare)
	slices.SortFunc(others, snapshot.Ref.Compare)
	return ours, others
}

func lintVerdict(findings []lintFinding) error {
	count := 0
	for _, finding := range findings {
		if finding.Severity == lintError {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%d error(s)", count)
}
