package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/kube"
)

// meshManager is the field manager of mesh apply.
const meshManager = "slipway-mesh"

// meshFlags are common to the mesh commands.
type meshFlags struct {
	mode.MeshSettings
	choice kube.UserChoice
}

// runtimeMeshCommand returns slipway runtime mesh, which manages Istio's routes
// to a runtime.
func runtimeMeshCommand() *cobra.Command {
	given := &meshFlags{}
	command := &cobra.Command{
		Use:   "mesh",
		Short: "Route a service mesh to a runtime",
		Long: `Writes the VirtualServices of Istio that lead a host of a mesh to a runtime, and
checks those that are there. A runtime of 0.0.543 or newer, and every runtime of
Slipway, has one router and needs one VirtualService for /webhooks, /app-proxy and
/workflows. An older one needs one for its app-proxy and one for its event
sources.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	flags := command.PersistentFlags()
	flags.StringVar(&given.Runtime, "runtime", "", "name of the runtime")
	flags.StringVarP(&given.Namespace, "namespace", "n", "", "namespace of the runtime (default its name)")
	flags.StringVar(&given.Gateway, "gateway", "", "Gateway of the mesh, as name or namespace/name")
	flags.StringArrayVar(&given.Hosts, "host", nil, "host of the runtime, as in ingressUrl; may be repeated")
	flags.StringVar(&given.Version, "runtime-version", "", "version of the runtime (default that of this program)")
	flags.StringArrayVar(&given.EventSources, "event-source", nil, "event source of a runtime up to 0.0.542; may be repeated")
	command.AddCommand(meshGenerateCommand(given), meshApplyCommand(given), meshVerifyCommand(given))
	return command
}

// settings checks the flags and returns them with defaults. Warnings go to
// standard error.
func (f *meshFlags) settings(command *cobra.Command, needsGateway bool) (mode.MeshSettings, error) {
	settings := f.MeshSettings
	if settings.Namespace == "" {
		settings.Namespace = settings.Runtime
	}
	var problems []error
	for _, finding := range settings.Check(needsGateway) {
		keys := make([]string, 0, len(finding.Keys))
		for _, key := range finding.Keys {
			keys = append(keys, "--"+key)
		}
		text := fmt.Sprintf("%s: %s: %s", strings.Join(keys, ", "), finding.Message, finding.Fix)
		if finding.Warning {
			_, _ = fmt.Fprintln(command.ErrOrStderr(), "slipway: warning: "+text)
			continue
		}
		problems = append(problems, errors.New(text))
	}
	if len(problems) > 0 {
		return settings, exit.UsageError{Err: errors.Join(problems...)}
	}
	return settings, nil
}

// addCluster adds the flags of commands that connect to a cluster.
func (f *meshFlags) addCluster(command *cobra.Command) {
	kubeflags.Add(command.Flags(), &f.choice)
}

// open connects to the cluster.
func (f *meshFlags) open() (*kube.Cluster, error) {
	cluster, err := kubeflags.Connect(f.choice)
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return cluster, nil
}

// meshGenerateCommand prints the VirtualServices, for kubectl or Git.
func meshGenerateCommand(given *meshFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "generate",
		Short:   "Print the VirtualServices of a runtime",
		Example: `  slipway runtime mesh generate --runtime prod --gateway istio-system/public --host prod.example.com | kubectl apply -f -`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			settings, err := given.settings(command, true)
			if err != nil {
				return err
			}
			text, err := mode.YAML(mode.VirtualServices(settings)...)
			if err != nil {
				return err
			}
			_, err = io.WriteString(command.OutOrStdout(), text)
			return err
		},
	}
}

// meshApplyCommand applies the VirtualServices, and verifies them then.
func meshApplyCommand(given *meshFlags) *cobra.Command {
	var force bool
	command := &cobra.Command{
		Use:   "apply",
		Short: "Write the VirtualServices of a runtime to the cluster",
		Long: `Writes the VirtualServices of a runtime to the cluster, and checks them then. One
that has the name and was made by another tool is left alone, unless --force is
given.`,
		Example: `  slipway runtime mesh apply --runtime prod --gateway istio-system/public --host prod.example.com`,
		Args:    cobra.NoArgs,
	}
	given.addCluster(command)
	command.Flags().BoolVar(&force, "force", false, "replace VirtualServices that another tool made")
	command.RunE = func(command *cobra.Command, _ []string) error {
		settings, err := given.settings(command, true)
		if err != nil {
			return err
		}
		cluster, err := given.open()
		if err != nil {
			return err
		}
		defer cluster.Close()
		ctx, cancel := context.WithTimeout(command.Context(), kubeflags.RequestTimeout)
		defer cancel()
		services, err := virtualServices(cluster, settings.Namespace)
		if err != nil {
			return err
		}
		objects := mode.VirtualServices(settings)
		if !force {
			if err := refuseStrangers(ctx, services, objects); err != nil {
				return err
			}
		}
		if err := applyServices(ctx, cluster, settings.Namespace, objects); err != nil {
			return err
		}
		for _, object := range objects {
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "VirtualService %s/%s is applied.\n", settings.Namespace, object.Name())
		}
		return verifyMesh(ctx, command, services, settings, &printer.Output{Form: printer.FormTable})
	}
	return command
}

// applyServices applies the VirtualServices with server-side apply.
func applyServices(ctx context.Context, cluster *kube.Cluster, namespace string, objects []mode.Object) error {
	text, err := mode.YAML(objects...)
	if err != nil {
		return err
	}
	_, err = cluster.Apply(ctx, kube.Target{Namespace: namespace, Manager: meshManager}, text)
	return explainMesh(err, namespace)
}

// refuseStrangers refuses to overwrite VirtualServices of our names without our
// label.
func refuseStrangers(ctx context.Context, services dynamic.ResourceInterface, objects []mode.Object) error {
	var problems []error
	for _, object := range objects {
		found, err := services.Get(ctx, object.Name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return explainMesh(err, "")
		}
		if found.GetLabels()[mode.ManagedLabel] != "slipway" {
			problems = append(problems, fmt.Errorf("the VirtualService %s/%s was made by another tool: look at it with slipway runtime mesh verify, and replace it with --force",
				found.GetNamespace(), found.GetName()))
		}
	}
	return errors.Join(problems...)
}

// meshVerifyCommand checks every path of every host. It reads VirtualServices
// of any origin: routes by hand are as good as ours.
func meshVerifyCommand(given *meshFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "verify",
		Short: "Check every path of the mesh to a runtime",
		Long: `Reads the VirtualServices in the namespace of a runtime and says for each path of
each host where it leads. It ends with 1 when a path does not lead to the runtime.
Without --gateway any gateway will do.`,
		Example: `  slipway runtime mesh verify --runtime prod --host prod.example.com
  slipway runtime mesh verify --runtime prod --host prod.example.com -o json`,
		Args: cobra.NoArgs,
	}
	given.addCluster(command)
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		settings, err := given.settings(command, false)
		if err != nil {
			return err
		}
		cluster, err := given.open()
		if err != nil {
			return err
		}
		defer cluster.Close()
		ctx, cancel := context.WithTimeout(command.Context(), kubeflags.RequestTimeout)
		defer cancel()
		services, err := virtualServices(cluster, settings.Namespace)
		if err != nil {
			return err
		}
		return verifyMesh(ctx, command, services, settings, output)
	}
	return command
}

// virtualServices returns the client for VirtualServices in the version that
// the cluster prefers: old and new releases of Istio have no version in common.
func virtualServices(cluster *kube.Cluster, namespace string) (dynamic.ResourceInterface, error) {
	groups, err := cluster.Client.Discovery().ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("ask the API server at %s what it knows: %w", cluster.Config.Host, err)
	}
	at := slices.IndexFunc(groups.Groups, func(group metav1.APIGroup) bool { return group.Name == mode.IstioGroup })
	if at < 0 {
		return nil, fmt.Errorf("the cluster has no VirtualServices: install Istio first, or choose another --context")
	}
	resource := schema.GroupVersionResource{Group: mode.IstioGroup, Version: groups.Groups[at].PreferredVersion.Version, Resource: "virtualservices"}
	return cluster.Dynamic.Resource(resource).Namespace(namespace), nil
}

// verifyMesh prints where the paths lead, and returns an error if one leads
// elsewhere.
func verifyMesh(ctx context.Context, command *cobra.Command, services dynamic.ResourceInterface, settings mode.MeshSettings, output *printer.Output) error {
	listed, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		return explainMesh(err, settings.Namespace)
	}
	states := mode.VerifyMesh(settings, meshObjects(listed))
	if err := printMesh(command.OutOrStdout(), states, output); err != nil {
		return err
	}
	missing := 0
	for _, state := range states {
		if !state.OK {
			missing++
		}
	}
	if missing > 0 {
		return exit.Status{Code: exit.Failure, Err: fmt.Errorf("%d of %d paths do not lead to the runtime %s: slipway runtime mesh generate prints what is needed", missing, len(states), settings.Runtime)}
	}
	return nil
}

// meshObjects converts a list for package mode, which knows no client-go types.
func meshObjects(listed *unstructured.UnstructuredList) []mode.Object {
	var objects []mode.Object
	for i := range listed.Items {
		objects = append(objects, listed.Items[i].Object)
	}
	return objects
}

// printMesh prints the state of the paths.
func printMesh(w io.Writer, states []mode.PathState, output *printer.Output) error {
	if output.Form != printer.FormTable {
		return output.Encode(w, map[string]any{"paths": states})
	}
	rows, flush := printer.NewTable(w)
	rows.Row("HOST", "PATH", "STATE", "VIRTUALSERVICE", "MESSAGE")
	for _, state := range states {
		word := "missing"
		if state.OK {
			word = "ok"
		}
		rows.Row(state.Host, state.Path, word, printer.OrDash(state.By), state.Message)
	}
	return flush()
}

// explainMesh turns an error of the API server into one that tells the user
// what to do.
func explainMesh(err error, namespace string) error {
	switch {
	case err == nil:
		return nil
	case kubeflags.MissingKind(err):
		return errors.New("the cluster has no VirtualServices: install Istio first, or choose another --context")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not do that with VirtualServices in the namespace %s: ask for the right on virtualservices.%s", namespace, mode.IstioGroup)
	}
	return fmt.Errorf("VirtualServices of the namespace %s: %w", namespace, err)
}
