package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// listPage is how many Applications are asked for at a time.
const listPage = 500

func appListCommand(access *appAccess) *cobra.Command {
	var all bool
	var selector string
	command := &cobra.Command{
		Use:   "list",
		Short: "List Applications",
		Example: `  slipway app list -n argocd
  slipway app list -A -o wide
  slipway app list -A -l team=shop -o json`,
		Args: cobra.NoArgs,
	}
	output := newOutputFlag(command, outputWide, outputJSON, outputYAML, outputName)
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list those of all namespaces")
	command.Flags().StringVarP(&selector, "selector", "l", "", "list those with these labels, such as team=shop")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := output.check(); err != nil {
			return err
		}
		cluster, err := access.open()
		if err != nil {
			return err
		}
		defer cluster.Close()
		namespace := cluster.namespace
		if all {
			namespace = metav1.NamespaceAll
		}
		apps, err := cluster.list(command.Context(), namespace, selector)
		if err != nil {
			return err
		}
		if len(apps) == 0 && !all {
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "There are no such Applications in the namespace %s: look in all with -A, or choose one with -n.\n", namespace)
		}
		return printApplications(command.OutOrStdout(), apps, output, all)
	}
	return command
}

// list reads the Applications of a namespace, or of all, by name.
func (c *appCluster) list(ctx context.Context, namespace, selector string) ([]*application, error) {
	ctx, cancel := context.WithTimeout(ctx, appRequestTimeout)
	defer cancel()
	var apps []*application
	options := metav1.ListOptions{LabelSelector: selector, Limit: listPage}
	for {
		page, err := c.applications(namespace).List(ctx, options)
		if err != nil {
			return nil, c.explain(err, "list", namespace)
		}
		for i := range page.Items {
			app, err := decodeApplication(&page.Items[i])
			if err != nil {
				return nil, err
			}
			apps = append(apps, app)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	slices.SortFunc(apps, func(a, b *application) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return apps, nil
}

func printApplications(w io.Writer, apps []*application, output *outputFlag, all bool) error {
	switch output.form {
	case outputJSON, outputYAML:
		items := []any{}
		for _, app := range apps {
			items = append(items, bareObject(app.object))
		}
		return output.encode(w, map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplication + "List", "items": items})
	case outputName:
		for _, app := range apps {
			if _, err := fmt.Fprintln(w, qualifiedName(app.object)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(apps) == 0 {
		return nil
	}
	rows, flush := newTable(w)
	wide := output.form == outputWide
	rows.row(applicationHeader(all, wide)...)
	for _, app := range apps {
		rows.row(applicationRow(app, all, wide)...)
	}
	return flush()
}

// qualifiedName is an object as kubectl writes names, with its namespace.
func qualifiedName(object *unstructured.Unstructured) string {
	return object.GetNamespace() + "/" + object.GetName()
}

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

func applicationRow(app *application, all, wide bool) []string {
	var cells []string
	if all {
		cells = append(cells, app.Namespace)
	}
	status := &app.Status
	cells = append(cells,
		app.Name, app.Spec.ProjectName(), shownSync(status), shownHealth(status),
		orNone(shownRevision(status.Sync.Revision, status.Sync.Revisions)), shownPhase(app),
	)
	if wide {
		var sources []string
		for _, source := range app.Spec.AllSources() {
			sources = append(sources, shownSource(&source))
		}
		cells = append(cells,
			orNone(app.Spec.Destination.Namespace), shownPolicy(app.Spec.SyncPolicy), orNone(conditionTypes(app)), strings.Join(sources, "; "))
	}
	return cells
}

// shownSync is the state of sync; one that nobody has looked at is Unknown.
func shownSync(status *v1alpha1.ApplicationStatus) string {
	if status.Sync.Status == "" {
		return string(v1alpha1.SyncUnknown)
	}
	return string(status.Sync.Status)
}

// shownHealth is the health; one that nobody has looked at is Unknown.
func shownHealth(status *v1alpha1.ApplicationStatus) string {
	if status.Health.Status == "" {
		return string(v1alpha1.Unknown)
	}
	return string(status.Health.Status)
}

// shownPhase is how far the last operation is.
func shownPhase(app *application) string {
	if app.Operation != nil {
		return "Requested"
	}
	if app.Status.OperationState == nil {
		return "-"
	}
	return string(app.Status.OperationState.Phase)
}

// shownPolicy says what happens without being asked.
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

func conditionTypes(app *application) string {
	var names []string
	for _, condition := range app.Status.Conditions {
		if !slices.Contains(names, condition.Type) {
			names = append(names, condition.Type)
		}
	}
	return strings.Join(names, ",")
}
