package diagnosecmd

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/offline"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/ingress/manifest"
)

// Lint returns the command slipway lint. It never contacts a cluster, so it can
// run in a pipeline without credentials.
func Lint() *cobra.Command {
	given := &offline.Flags{}
	var strict bool
	output := "text"
	command := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Validate manifests as the edge would",
		Long: `Reads manifests as the edge reads a cluster, and lists everything that the edge would
refuse, with the reason. Nothing is sent to a cluster. A reference to an object that
is not in the manifests is a warning, because the object may be in the cluster:
Secrets should not be in Git. The exit code is 1 when there is an error.`,
		Example: `  slipway lint -f deploy/
  helm template chart | slipway lint -f -
  slipway lint -f deploy/ --config-file edge.yaml --strict`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return exit.UsageError{Err: fmt.Errorf("--output %q is neither text nor json", output)}
			}
			// Without files load would read the cluster of the kubeconfig.
			if len(given.Files) == 0 {
				return exit.UsageError{Err: errors.New("nothing to read: name manifests with -f FILE, a directory, or - for the input")}
			}
			judge, err := given.Load(command)
			if err != nil {
				return err
			}
			defer judge.Close()
			// The findings are printed before the verdict, also as JSON: the
			// exit code adds to the output and does not replace it.
			findings := judge.Findings(strict)
			if output == "json" {
				if err := printer.WriteJSON(command.OutOrStdout(), findings); err != nil {
					return err
				}
			} else if err := printFindings(command.OutOrStdout(), findings, judge); err != nil {
				return err
			}
			return lintOutcome(findings)
		},
	}
	given.Add(command)
	command.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors")
	command.Flags().StringVar(&output, "output", output, "output format: text or json")
	return command
}

// printFindings prints findings as a table, and a summary of the Ingresses that
// would be served. The summary shows a user whose manifests have another class
// why there are no findings.
func printFindings(w io.Writer, findings []manifest.Finding, judge *controller.Offline) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, found := range findings {
		message := found.Message
		if found.Field != "" {
			message = found.Field + ": " + message
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", found.Severity, printer.Printable(found.File), printer.Printable(found.Object), printer.Printable(message))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	ours, others := judge.Sites()
	refused := controller.Refused(ours, findings)
	_, err := fmt.Fprintf(w, "%s would be served, %d not as written, %d of other classes; %s skipped.\n",
		finding.Count(len(ours)-refused, "Ingress", "Ingresses"), refused, len(others), finding.Count(judge.Set.Passed, "object of another kind was", "objects of other kinds were"))
	if err != nil {
		return err
	}
	if ours, others = judge.TraefikSites(); len(ours)+len(others) > 0 {
		refused = controller.Refused(ours, findings)
		if _, err = fmt.Fprintf(w, "%s would be served, %d not as written, %d of other classes.\n",
			finding.Count(len(ours)-refused, "IngressRoute", "IngressRoutes"), refused, len(others)); err != nil {
			return err
		}
	}
	ours, others = judge.GatewaySites()
	if len(ours)+len(others) == 0 {
		return nil
	}
	refused = controller.Refused(ours, findings)
	_, err = fmt.Fprintf(w, "%s would be served, %d not as written, %d of other controllers or without their Gateway.\n",
		finding.Count(len(ours)-refused, "Gateway or route", "Gateways and routes"), refused, len(others))
	return err
}

// lintOutcome returns an error if there is a finding of severity error, which
// makes the exit code 1. With --strict the findings have no warnings left.
func lintOutcome(findings []manifest.Finding) error {
	count := 0
	for _, found := range findings {
		if found.Severity == finding.Error {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	return errors.New(finding.Count(count, "error", "errors"))
}
