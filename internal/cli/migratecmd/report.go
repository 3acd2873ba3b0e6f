package migratecmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/offline"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/kube"
)

// The exit codes of slipway migrate report, beside those of all commands.
const (
	exitDiffers = 3
	exitRefused = 4
)

// reportFlags select the objects, and how the report is shown.
type reportFlags struct {
	choice    kube.UserChoice
	input     offline.Flags
	namespace string
	class     string
	failOn    string
	accept    []string
	html      string
	output    *printer.Output
}

// reportCommand returns the command slipway migrate report.
func reportCommand() *cobra.Command {
	given := &reportFlags{}
	command := &cobra.Command{
		Use:   "report",
		Short: "Report which Ingresses and IngressRoutes would be served otherwise than today",
		Long: `Reads the objects of ingress-nginx, of Traefik and of other controllers of Ingresses, from
a cluster or from manifests with -f, and reports for each what becomes of it when
Slipway serves it: same, differs (how, with a request that shows it and the expected
responses of both sides), or refused (what to do). Nothing is changed.

Differences are declared ones, which docs/migration-nginx.md and docs/migration-traefik.md
list, and computed ones: requests for each host and path, and for paths close to it, are
evaluated by the code of the edge, and compared with the way of the other controller, for
which all namespaces share all hosts. Services, Secrets and other objects that are missing
are findings: they do not make an object differ.

The options of the edge are those of --config-file, or the defaults. Of a cluster the
command lists Ingresses, IngressClasses, Services and the objects of Traefik, and the
names of Secrets, with your own permissions. Kinds that you may not list are named.

The exit code is 0 if all objects are the same, 3 if one differs, and 4 if one is refused;
1 if the report failed, and 2 if the command line is wrong. --fail-on refused makes 3 a 0,
and --fail-on never both. --accept NAME makes a difference not count.`,
		Example: `  slipway migrate report
  slipway migrate report --class nginx --html report.html
  slipway migrate report -f deploy/ --config-file edge.yaml -o json
  slipway migrate report -f deploy/ --fail-on refused --accept cors-credentials`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return given.run(command) },
	}
	flags := command.Flags()
	given.input.AddInput(command)
	kubeflags.Add(flags, &given.choice)
	flags.StringVarP(&given.namespace, "namespace", "n", "", "namespace of a cluster that is read, all if it is empty; with -f that of objects without one")
	flags.StringVar(&given.class, "class", "", "only objects of this class; those of other classes stay with their controller")
	flags.StringVar(&given.failOn, "fail-on", "differs", "effect that gives an exit code other than 0: differs, refused or never")
	flags.StringSliceVar(&given.accept, "accept", nil, "name of a difference that does not count; may be repeated")
	flags.StringVar(&given.html, "html", "", "file to write the report to, as one page of HTML")
	given.output = printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	return command
}

// run makes the report, shows it, and chooses the exit code.
func (f *reportFlags) run(command *cobra.Command) error {
	if err := f.check(); err != nil {
		return exit.UsageError{Err: err}
	}
	options, err := f.input.Options()
	if err != nil {
		return err
	}
	input := controller.ReportInput{
		Files: f.input.Files, Input: command.InOrStdin(), Namespace: f.namespace, Options: options,
		Build: admin.Build(buildinfo.Read()), Class: f.class, Accept: f.accept,
	}
	if len(f.input.Files) == 0 {
		if input.Cluster, err = kubeflags.Connect(f.choice); err != nil {
			return err
		}
		defer input.Cluster.Close()
	}
	report, err := controller.Report(command.Context(), input)
	if err != nil {
		return err
	}
	if err := f.show(command, report); err != nil {
		return err
	}
	return f.outcome(report)
}

// check refuses flags that cannot be used.
func (f *reportFlags) check() error {
	if !slices.Contains([]string{"differs", "refused", "never"}, f.failOn) {
		return fmt.Errorf("--fail-on %q is not known: choose differs, refused or never", f.failOn)
	}
	known := difference.Known()
	for _, name := range f.accept {
		if slices.Contains(known, name) {
			continue
		}
		if near := declare.Nearest(name, known); near != "" {
			return fmt.Errorf("--accept %q is no difference: did you mean %s?", name, near)
		}
		return fmt.Errorf("--accept %q is no difference: choose one of %s", name, strings.Join(known, ", "))
	}
	return nil
}

// show prints the report, and writes the page.
func (f *reportFlags) show(command *cobra.Command, report *controller.MigrationReport) error {
	if f.html != "" {
		if err := writeHTMLFile(f.html, report); err != nil {
			return err
		}
	}
	if f.output.Form != printer.FormTable {
		return f.output.Encode(command.OutOrStdout(), report)
	}
	if err := writeReportTable(command.OutOrStdout(), report); err != nil {
		return err
	}
	for _, unread := range report.Unread {
		printer.Note(command, "warning: %s may not be listed, so objects that name one are not checked for it: %s", unread.Kind, unread.Reason)
	}
	counts := report.Counts
	printer.Note(command, "%s: %d the same, %d differ, %d refused; %s. %s compared.",
		finding.Count(counts.Objects, "object", "objects"), counts.Same, counts.Differs, counts.Refused,
		finding.Count(counts.Findings, "finding", "findings"), finding.Count(counts.Requests, "request was", "requests were"))
	return nil
}

// outcome returns the exit code of the report.
func (f *reportFlags) outcome(report *controller.MigrationReport) error {
	switch counts := report.Counts; {
	case f.failOn == "never":
		return nil
	case counts.Refused > 0:
		return exit.Status{Code: exitRefused, Err: errors.New(finding.Count(counts.Refused, "object is", "objects are") + " refused in part or in whole: see the report")}
	case counts.Differs > 0 && f.failOn == "differs":
		return exit.Status{Code: exitDiffers, Err: errors.New(finding.Count(counts.Differs, "object differs", "objects differ") + ": see the report")}
	default:
		return nil
	}
}
