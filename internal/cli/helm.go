package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/kube"
)

func helmCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "helm",
		Short: "Check the values of a runtime's chart",
	}
	command.AddCommand(helmValidateCommand())
	return command
}

// validateFlags say what is validated.
type validateFlags struct {
	values, namespace, version, output string
	kubeconfig, context                string
	hook, offline                      bool
}

// helmValidateCommand: R42.
func helmValidateCommand() *cobra.Command {
	given := &validateFlags{}
	command := &cobra.Command{
		Use:   "validate --values FILE",
		Short: "Say everything that is wrong with the values of a runtime",
		Long: `Checks a values file of the chart gitops-runtime before an installation: the values
by themselves, the Secrets and the IngressClass that they name, whether the API key
is an admin's of the account, whether the name is free, whether the address answers,
and what the Git token may do. Everything that is wrong is told at once, with what to
do about it. Nothing is changed. What cannot answer yet, such as an address whose DNS
record comes later, is a warning.

The chart runs it before each installation and upgrade; installer.skipValidation=true
turns that off, and global.runtime.ingress.skipValidation=true turns off the question
to the address. The exit code is 1 when there is an error, and 2 when the command
line is wrong.`,
		Example: `  slipway helm validate --values values.yaml --namespace slipway --version 0.1.0
  slipway helm validate --values values.yaml --offline
  slipway helm validate --values values.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return runHelmValidate(command, given) },
	}
	flags := command.Flags()
	flags.StringVarP(&given.values, "values", "f", "", "values file; - is the input")
	flags.StringVarP(&given.namespace, "namespace", "n", defaultNamespace, "namespace that the runtime is installed to")
	flags.StringVar(&given.version, "version", "", "version of the chart (default the newest)")
	flags.StringVarP(&given.output, "output", "o", "text", "how to print it: text or json")
	flags.StringVar(&given.kubeconfig, "kubeconfig", "", "kubeconfig file (default as kubectl)")
	flags.StringVar(&given.context, "context", "", "context of the kubeconfig (default the current one)")
	flags.BoolVar(&given.offline, "offline", false, "check the values by themselves, and ask nobody")
	flags.BoolVar(&given.hook, "hook", false, "run in the Job of the chart: what was found ends the log")
	return command
}

func runHelmValidate(command *cobra.Command, given *validateFlags) error {
	switch {
	case given.output != "text" && given.output != "json":
		return usageError{fmt.Errorf("--output %q is neither text nor json", given.output)}
	case given.values == "":
		return usageError{errors.New("no values are named: give a file with --values, or - for the input")}
	case given.hook && given.offline:
		return usageError{errors.New("--hook is for the cluster that it runs in, and --offline asks nobody: keep one of them")}
	}
	options := validate.Options{Namespace: given.namespace, Version: given.version, Values: command.InOrStdin()}
	if given.values != "-" {
		file, err := os.Open(given.values)
		if err != nil {
			return usageError{fmt.Errorf("read the values: %w", err)}
		}
		defer func() { _ = file.Close() }()
		options.Values = file
	}
	if !given.offline {
		cluster, err := kube.ConnectUser(kube.UserChoice{Kubeconfig: given.kubeconfig, Context: given.context}, kube.Version(readBuildFacts().Version))
		if err != nil {
			return usageError{fmt.Errorf("%w; or check the values by themselves with --offline", err)}
		}
		defer cluster.Close()
		options.World = &validate.Live{Cluster: cluster}
	}
	report := validate.Run(command.Context(), options)
	if err := printReport(command.OutOrStdout(), given.output, report); err != nil {
		return err
	}
	if report.OK() {
		return nil
	}
	return verdict{code: exitFailure, err: fmt.Errorf("%d error(s) in the values: nothing was installed", report.Count(validate.Error))}
}

func printReport(w io.Writer, output string, report validate.Report) error {
	if output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	for _, skipped := range report.Skipped {
		_, _ = fmt.Fprintf(w, "skipped: %s\n", printable(skipped))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, finding := range report.Findings {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", finding.Severity, finding.Code, printable(finding.Key), printable(finding.Reason))
		if finding.Fix != "" {
			_, _ = fmt.Fprintf(table, "\t\t\t→ %s\n", printable(finding.Fix))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if report.OK() {
		how := ""
		if report.Mode != "" {
			how = ", reached by " + report.Mode
			if report.URL != "" {
				how += " at " + report.URL
			}
		}
		_, err := fmt.Fprintf(w, "The values are good for the runtime %s%s.\n", printable(report.Runtime), printable(how))
		return err
	}
	return nil
}
