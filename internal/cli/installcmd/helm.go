// Package installcmd has the commands around the chart of a runtime: helm
// (validate its values), crds (who owns the CustomResourceDefinitions) and
// images (list, copy and pin its images).
package installcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/report"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/kube"
)

// Helm returns the command slipway helm. It has no RunE, so that cobra prints
// its help.
func Helm() *cobra.Command {
	command := &cobra.Command{
		Use:   "helm",
		Short: "Work with the Helm chart of a runtime",
	}
	command.AddCommand(helmValidateCommand())
	return command
}

// validateFlags are the flags of helm validate.
type validateFlags struct {
	values, namespace, version, output string
	kubeconfig, context, chart         string
	// hook is set by the Job of the chart. It needs a cluster, so it excludes
	// offline.
	hook, offline, plainHTTP bool
}

// helmValidateCommand validates values (R42). The chart runs the same command
// as a hook, so that users can reproduce a failed hook on their machine.
func helmValidateCommand() *cobra.Command {
	given := &validateFlags{}
	command := &cobra.Command{
		Use:   "validate --values FILE",
		Short: "Validate the values of a runtime's chart",
		Long: `Checks a values file of the chart gitops-runtime before an installation: the values
themselves, the Secrets and the IngressClass that they reference, whether the API key
belongs to an admin of the account, whether the name is free, whether the address
responds, and the permissions of the Git token. It lists all problems at once, each
with a fix, and changes nothing. An address that does not respond yet, such as one
whose DNS record comes later, is a warning.

The chart runs it before each installation and upgrade; installer.skipValidation=true
disables that, and global.runtime.ingress.skipValidation=true disables the request to
the address. The exit code is 1 when there is an error, and 2 when the command line
is wrong.`,
		Example: `  slipway helm validate --values values.yaml --namespace slipway --version 0.1.0
  slipway helm validate --values values.yaml --offline
  slipway helm validate --values values.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return runHelmValidate(command, given) },
	}
	flags := command.Flags()
	flags.StringVarP(&given.values, "values", "f", "", "values file; - is standard input")
	flags.StringVarP(&given.namespace, "namespace", "n", release.DefaultNamespace, "namespace that the runtime is installed to")
	flags.StringVar(&given.version, "version", "", "version of the chart (default that of this program); another one is fetched")
	flags.StringVar(&given.chart, "chart", "", "directory, archive or oci:// address of the chart (default the one in this program)")
	flags.BoolVar(&given.plainHTTP, "plain-http", false, "fetch the chart from a registry without TLS")
	flags.StringVarP(&given.output, "output", "o", "text", "output format: text or json")
	flags.StringVar(&given.kubeconfig, "kubeconfig", "", "kubeconfig file (default as kubectl)")
	flags.StringVar(&given.context, "context", "", "context of the kubeconfig (default the current one)")
	flags.BoolVar(&given.offline, "offline", false, "check only the values, without the cluster and the network")
	flags.BoolVar(&given.hook, "hook", false, "run in the Job of the chart: print the findings at the end of the log")
	return command
}

// runHelmValidate validates the values and prints the report. With --offline
// only the values themselves are checked. All findings are printed before the
// exit code reports errors; warnings alone exit with 0.
func runHelmValidate(command *cobra.Command, given *validateFlags) error {
	switch {
	case given.output != "text" && given.output != "json":
		return exit.UsageError{Err: fmt.Errorf("--output %q is neither text nor json", given.output)}
	case given.values == "":
		return exit.UsageError{Err: errors.New("no values are named: give a file with --values, or - for the input")}
	case given.hook && given.offline:
		return exit.UsageError{Err: errors.New("--hook checks the cluster that it runs in, and --offline contacts no server: keep one of them")}
	}
	// World stays nil with --offline, which turns off all checks of the cluster
	// and the network.
	text, err := readValues(command, given.values)
	if err != nil {
		return err
	}
	options := validate.Options{Namespace: given.namespace, Version: given.version, Values: bytes.NewReader(text)}
	// A hook runs in the cluster and uses the Pod's service account.
	if !given.offline {
		cluster, err := kubeflags.Connect(kube.UserChoice{Kubeconfig: given.kubeconfig, Context: given.context})
		if err != nil {
			return exit.UsageError{Err: fmt.Errorf("%w; or check the values by themselves with --offline", err)}
		}
		defer cluster.Close()
		options.World = &validate.Live{Cluster: cluster}
	}
	// Findings are part of the report and not errors, so that one run lists all
	// of them.
	checked := validate.Run(command.Context(), options)
	if err := given.checkChart(command.Context(), text, &checked); err != nil {
		return err
	}
	if err := report.Values(command.OutOrStdout(), given.output, checked); err != nil {
		return err
	}
	if checked.OK() {
		return nil
	}
	outcome := finding.Count(checked.Errors(), "error", "errors") + " in the values"
	if given.hook {
		outcome += ": nothing was installed"
	}
	return exit.Status{Code: exit.Failure, Err: errors.New(outcome)}
}

// readValues reads the values of a file, or of the input for -. A file that
// cannot be opened is a usage error and not a finding.
func readValues(command *cobra.Command, path string) ([]byte, error) {
	from := command.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, exit.UsageError{Err: fmt.Errorf("read the values: %w", err)}
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	// One byte more than the limit: validate reports a file that is too large.
	return io.ReadAll(io.LimitReader(from, values.MaxBytes+1))
}

// checkChart checks the values with another chart than the one in this program:
// whether there is such a version, and whether its schema and its templates
// accept the values. Its messages may quote secrets, so that only the keys are
// shown.
func (f *validateFlags) checkChart(ctx context.Context, text []byte, checked *validate.Report) error {
	archive, err := charts.Archive(charts.Runtime)
	if err != nil {
		return err
	}
	own, err := release.ReadChart(archive)
	// A hook is part of the chart of that version, which Helm has rendered with
	// the values; and where it runs there need not be a registry.
	if err != nil || f.hook || f.chart == "" && (f.version == "" || strings.TrimPrefix(f.version, "v") == own.Version()) {
		return err
	}
	// A registry is the network; and a version that is none was reported.
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(f.version, "v")); f.version != "" && err != nil || f.chart == "" && f.offline {
		return nil
	}
	chart, err := release.FindChart(ctx, release.Source{Place: cmp.Or(f.chart, release.DefaultChart), Version: f.version, PlainHTTP: f.plainHTTP})
	if err != nil {
		checked.Findings = append(checked.Findings, finding.Finding{Code: validate.CodeVersion, Severity: finding.Error, Subject: "--version",
			Message: "the chart cannot be read: " + err.Error(), Fix: "name another version, or its place with --chart"})
		return nil
	}
	given := map[string]any{}
	if yaml.Unmarshal(text, &given) != nil {
		return nil // it is a finding already
	}
	if _, err := chart.Objects(ctx, release.Place{Release: release.DefaultName, Namespace: f.namespace}, given); err != nil {
		checked.Findings = append(checked.Findings, finding.Finding{Code: validate.CodeVersion, Severity: finding.Error, Subject: "--version " + chart.Version(),
			Message: "the chart of this version does not accept the values" + refusedKeys(err), Fix: "compare them with helm show values of that version"})
	}
	return nil
}

// refusedKeys returns the keys that the message of a schema names.
func refusedKeys(err error) string {
	var keys []string
	for _, match := range regexp.MustCompile(`at '/([^']*)'`).FindAllStringSubmatch(err.Error(), -1) {
		keys = append(keys, strings.ReplaceAll(match[1], "/", "."))
	}
	if len(keys) == 0 {
		return ""
	}
	return ": see " + strings.Join(keys, ", ")
}
