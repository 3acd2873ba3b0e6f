package appcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
)

// appListCommand returns the command that lists Applications. Through a
// platform without --runtime it lists those of all runtimes, from their
// reports.
func appListCommand(access *appAccess) *cobra.Command {
	var all bool
	var selector string
	command := &cobra.Command{
		Use:   "list",
		Short: "List Applications",
		Long: `Lists Applications: of all runtimes as they reported to the platform, of one runtime
with --runtime, or of a cluster.`,
		Example: `  slipway app list -n argocd
  slipway app list -A -o wide
  slipway app list -A -l team=shop -o json`,
		Args: cobra.NoArgs,
	}
	output := printer.NewOutput(command, printer.FormWide, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list Applications of all namespaces")
	command.Flags().StringVarP(&selector, "selector", "l", "", "list Applications with these labels, such as team=shop")
	command.RunE = func(command *cobra.Command, _ []string) error {
		through, err := access.through()
		if err != nil {
			return err
		}
		// The platform has the reports of all runtimes: listing them needs no
		// request to a runtime and works while runtimes are offline.
		if through && access.platform.NamedRuntime() == "" {
			return access.listEverywhere(command, selector, output)
		}
		backend, err := access.lister(through)
		if err != nil {
			return err
		}
		defer backend.close()
		namespace := backend.home()
		// A runtime has no default namespace here: it lists all that it may
		// see.
		all = all || namespace == ""
		if all {
			namespace = metav1.NamespaceAll
		}
		apps, err := backend.list(command.Context(), namespace, selector)
		if err != nil {
			return err
		}
		// A hint on standard error and no error: an empty list is a valid
		// result.
		if len(apps) == 0 && !all {
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "There are no such Applications in the namespace %s: look in all with -A, or choose one with -n.\n", namespace)
		}
		return printApplications(command.OutOrStdout(), apps, output, all)
	}
	return command
}

// printApplications prints Applications of one backend. Nothing is printed for
// an empty list in table form, so that scripts see an empty output; JSON and
// YAML are a List object, as kubectl prints it.
func printApplications(w io.Writer, apps []*application, output *printer.Output, all bool) error {
	switch output.Form {
	case printer.FormJSON, printer.FormYAML:
		items := []any{}
		for _, app := range apps {
			// The unstructured object: fields that this program does not know
			// are printed too.
			items = append(items, inspect.ShownApplication(app).Object)
		}
		return output.Encode(w, map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplication + "List", "items": items})
	case printer.FormName:
		for _, app := range apps {
			if _, err := fmt.Fprintln(w, qualifiedName(app.Object)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(apps) == 0 {
		return nil
	}
	rows, flush := printer.NewTable(w)
	wide := output.Form == printer.FormWide
	rows.Row(applicationHeader(all, wide)...)
	for _, app := range apps {
		rows.Row(applicationRow(app, all, wide)...)
	}
	return flush()
}

// qualifiedName formats an object as namespace/name, the form that all
// subcommands accept as argument.
func qualifiedName(object *unstructured.Unstructured) string {
	return object.GetNamespace() + "/" + object.GetName()
}

// applicationHeader returns the column titles; applicationRow must match it.
// all adds the namespace, wide the columns that seldom fit a terminal.
func applicationHeader(all, wide bool) []string {
	var cells []string
	if all {
		cells = append(cells, "NAMESPACE")
	}
	cells = append(cells, "NAME", "PROJECT", "SYNC", "HEALTH", "REVISION", "OPERATION")
	if wide {
		cells = append(cells, "DESTINATION", "POLICY", "CONDITIONS", "SOURCE")
	}
	return cells
}

// applicationRow returns the cells of one Application in the order of
// applicationHeader.
func applicationRow(app *application, all, wide bool) []string {
	var cells []string
	if all {
		cells = append(cells, app.Namespace)
	}
	status := &app.Status
	cells = append(cells,
		app.Name, app.Spec.ProjectName(), inspect.ShownSync(status), inspect.ShownHealth(status),
		printer.OrDash(shownRevision(status.Sync.Revision, status.Sync.Revisions)), shownPhase(app),
	)
	if wide {
		var sources []string
		for _, source := range app.Spec.AllSources() {
			sources = append(sources, shownSource(&source))
		}
		cells = append(cells,
			printer.OrDash(app.Spec.Destination.Namespace), shownPolicy(app.Spec.SyncPolicy), printer.OrDash(conditionTypes(app)), strings.Join(sources, "; "))
	}
	return cells
}

// shownPhase formats the phase of the last operation. A request that no agent
// has taken up yet comes first: the phase beside it is that of an older
// operation.
func shownPhase(app *application) string {
	if app.Operation != nil {
		return "Requested"
	}
	if app.Status.OperationState == nil {
		return "-"
	}
	return string(app.Status.OperationState.Phase)
}

// shownPolicy formats the sync policy: the actions of the agent without a
// request.
func shownPolicy(policy *v1alpha1.SyncPolicy) string {
	if !policy.IsAutomated() {
		return "manual"
	}
	words := []string{"automated"}
	if policy.Automated.Prune {
		words = append(words, "prune")
	}
	if policy.Automated.SelfHeal {
		words = append(words, "self-heal")
	}
	return strings.Join(words, ",")
}

// conditionTypes lists the types of the conditions, each once and in the order
// of the status. A status may have several conditions of a type with different
// messages.
func conditionTypes(app *application) string {
	var names []string
	for _, condition := range app.Status.Conditions {
		if !slices.Contains(names, condition.Type) {
			names = append(names, condition.Type)
		}
	}
	return strings.Join(names, ",")
}
