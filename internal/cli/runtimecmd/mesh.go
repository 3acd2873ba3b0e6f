package runtimecmd

import (
	"cmp"
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

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
)

// meshManager is the field manager of mesh apply. A rename would leave fields
// behind that an earlier version owns.
const meshManager = "slipway-mesh"

// meshFlags are the flags that the mesh commands share. They are persistent
// flags of the group; those of the cluster are not, because generate contacts
// none.
type meshFlags struct {
	mode.MeshSettings
	choice   kube.UserChoice
	platform *apiclient.Choice
}

// runtimeMeshCommand returns slipway runtime mesh, which manages the Istio
// routes to a runtime. It contacts the cluster, and the platform for a namespace
// and a host that are not given.
func runtimeMeshCommand(platform *apiclient.Choice) *cobra.Command {
	given := &meshFlags{platform: platform}
	command := &cobra.Command{
		Use:   "mesh",
		Short: "Route a service mesh to a runtime",
		Long: `Writes the Istio VirtualServices that route a host of a mesh to a runtime, and checks
existing ones. A runtime of version 0.0.543 or newer, and every runtime of Slipway,
has one router and needs one VirtualService for /webhooks, /app-proxy and /workflows.
An older one needs one for its app-proxy and one for its event sources.`,
	}
	flags := command.PersistentFlags()
	flags.StringVar(&given.Runtime, "runtime", "", "name of the runtime")
	flags.StringVarP(&given.Namespace, "namespace", "n", "", "namespace of the runtime (default as registered at the platform, or "+release.DefaultNamespace+")")
	flags.StringVar(&given.Gateway, "gateway", "", "Gateway of the mesh, as name or namespace/name")
	flags.StringArrayVar(&given.Hosts, "host", nil, "host of the runtime, as in ingressUrl; may be repeated (default as registered at the platform)")
	flags.StringVar(&given.Version, "runtime-version", "", "version of the runtime (default that of this program)")
	flags.StringArrayVar(&given.EventSources, "event-source", nil, "event source of a runtime up to 0.0.542; may be repeated")
	command.AddCommand(meshGenerateCommand(given), meshApplyCommand(given), meshVerifyCommand(given))
	return command
}

// settings validates the flags and returns them with defaults. All problems are
// reported at once; warnings go to standard error and do not fail the command.
func (f *meshFlags) settings(command *cobra.Command, needsGateway bool) (mode.MeshSettings, error) {
	// A copy: the flags stay as the user gave them.
	settings := f.MeshSettings
	if err := f.complete(command.Context(), &settings); err != nil {
		return settings, err
	}
	var problems []error
	for _, found := range settings.Check(needsGateway) {
		// Findings name settings; users set them as flags.
		found.Subject = "--" + strings.ReplaceAll(found.Subject, ", ", ", --")
		if found.Severity == finding.Warning {
			_, _ = fmt.Fprintln(command.ErrOrStderr(), "slipway: warning: "+found.String())
			continue
		}
		problems = append(problems, errors.New(found.String()))
	}
	if len(problems) > 0 {
		return settings, exit.UsageError{Err: errors.Join(problems...)}
	}
	return settings, nil
}

// complete adds what no flag gives and the platform has registered: the namespace
// of the runtime, and the host of its URL. Pipelines that give both need no
// platform.
func (f *meshFlags) complete(ctx context.Context, settings *mode.MeshSettings) error {
	if settings.Runtime == "" || settings.Namespace != "" && len(settings.Hosts) > 0 {
		return nil
	}
	client, err := apiclient.OpenOptional(f.platform)
	if err != nil {
		return err
	}
	if client != nil {
		defer client.Close()
		found, err := client.FindRuntime(ctx, settings.Runtime)
		if err != nil {
			return fmt.Errorf("%w; with --namespace and --host no platform is needed", err)
		}
		settings.Namespace = cmp.Or(settings.Namespace, found.GetNamespace())
		if len(settings.Hosts) == 0 && found.GetAccessUrl() != "" {
			settings.Hosts = []string{kubeflags.HostOf(found.GetAccessUrl())}
		}
	}
	settings.Namespace = cmp.Or(settings.Namespace, release.DefaultNamespace)
	return nil
}

// with returns a command's function that works on the VirtualServices in the
// namespace of the runtime, and adds the flags that choose the cluster. The
// flags are checked before a connection is made.
func (f *meshFlags) with(command *cobra.Command, needsGateway bool, run func(context.Context, *cobra.Command, meshTarget) error) func(*cobra.Command, []string) error {
	kubeflags.Add(command.Flags(), &f.choice)
	return func(command *cobra.Command, _ []string) error {
		settings, err := f.settings(command, needsGateway)
		if err != nil {
			return err
		}
		cluster, err := kubeflags.Connect(f.choice)
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
		return run(ctx, command, meshTarget{settings, cluster, services})
	}
}

// meshTarget is what a command of the mesh works on.
type meshTarget struct {
	mode.MeshSettings
	cluster  *kube.Cluster
	services dynamic.ResourceInterface
}

// meshGenerateCommand prints the VirtualServices as YAML, for kubectl or Git.
// It needs no cluster, so that pipelines can run it.
func meshGenerateCommand(given *meshFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "generate --runtime NAME --gateway GATEWAY",
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

// meshApplyCommand applies the VirtualServices and verifies the result, because
// routes of other VirtualServices may take precedence.
func meshApplyCommand(given *meshFlags) *cobra.Command {
	var force bool
	command := &cobra.Command{
		Use:   "apply --runtime NAME --gateway GATEWAY",
		Short: "Write the VirtualServices of a runtime to the cluster",
		Long: `Writes the VirtualServices of a runtime to the cluster, and then checks them. A
VirtualService with the same name that another tool created is not changed without
--force.`,
		Example: `  slipway runtime mesh apply --runtime prod --gateway istio-system/public --host prod.example.com`,
		Args:    cobra.NoArgs,
	}
	command.Flags().BoolVar(&force, "force", false, "replace VirtualServices that another tool created")
	command.RunE = given.with(command, true, func(ctx context.Context, command *cobra.Command, target meshTarget) error {
		// Without --force nothing is written unless all names are free or ours.
		objects := mode.VirtualServices(target.MeshSettings)
		// The check is not atomic with the apply, which forces conflicts: a
		// VirtualService that appears in between is overwritten.
		if !force {
			if err := refuseStrangers(ctx, target.services, objects); err != nil {
				return err
			}
		}
		if err := applyServices(ctx, target.cluster, target.Namespace, objects); err != nil {
			return err
		}
		for _, object := range objects {
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "VirtualService %s/%s is applied.\n", target.Namespace, object.Name())
		}
		// The apply command has no --output flag; its result is always a table.
		return target.verify(ctx, command, &printer.Output{Form: printer.FormTable})
	})
	return command
}

// applyServices applies the VirtualServices with server-side apply. It takes
// over the fields that it sets and keeps all others.
func applyServices(ctx context.Context, cluster *kube.Cluster, namespace string, objects []mode.Object) error {
	text, err := mode.YAML(objects...)
	if err != nil {
		return err
	}
	_, err = cluster.Apply(ctx, kube.Target{Namespace: namespace, Manager: meshManager}, text)
	return explainMesh(err, namespace)
}

// refuseStrangers returns an error if a VirtualService with one of our names
// lacks our label. It lists all of them, and runs before any write. An object
// that is missing is fine: apply creates it.
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
			problems = append(problems, fmt.Errorf("the VirtualService %s/%s was made by another tool: look at it with slipway runtime mesh verify --runtime NAME, and replace it with --force",
				found.GetNamespace(), found.GetName()))
		}
	}
	return errors.Join(problems...)
}

// meshVerifyCommand checks every path of every host. It considers all
// VirtualServices of the namespace, because manually written routes are equally
// valid.
func meshVerifyCommand(given *meshFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "verify --runtime NAME",
		Short: "Check every path of the mesh to a runtime",
		Long: `Reads the VirtualServices in the namespace of a runtime and shows the destination of
each path of each host. The exit code is 1 when a path does not lead to the runtime.
Without --gateway any gateway is accepted.`,
		Example: `  slipway runtime mesh verify --runtime prod --host prod.example.com
  slipway runtime mesh verify --runtime prod --host prod.example.com -o json`,
		Args: cobra.NoArgs,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = given.with(command, false, func(ctx context.Context, command *cobra.Command, target meshTarget) error {
		return target.verify(ctx, command, output)
	})
	return command
}

// virtualServices returns the client for VirtualServices in the version that
// the cluster prefers: old and new releases of Istio have no version in common.
// A missing API group means that Istio is not installed, which is an error with
// a remedy.
func virtualServices(cluster *kube.Cluster, namespace string) (dynamic.ResourceInterface, error) {
	// Discovery instead of a fixed version costs one request.
	groups, err := cluster.Client.Discovery().ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("discover the kinds of the API server at %s: %w", cluster.Config.Host, err)
	}
	at := slices.IndexFunc(groups.Groups, func(group metav1.APIGroup) bool { return group.Name == mode.IstioGroup })
	if at < 0 {
		return nil, fmt.Errorf("the cluster has no VirtualServices: install Istio first, or choose another --context")
	}
	resource := schema.GroupVersionResource{Group: mode.IstioGroup, Version: groups.Groups[at].PreferredVersion.Version, Resource: "virtualservices"}
	return cluster.Dynamic.Resource(resource).Namespace(namespace), nil
}

// verify prints the destination of each path and returns an error with exit
// code 1 if one does not lead to the runtime. The match approximates that of
// Istio's gateway: conditions on headers and ports are reported, but not
// evaluated.
func (t meshTarget) verify(ctx context.Context, command *cobra.Command, output *printer.Output) error {
	listed, err := t.services.List(ctx, metav1.ListOptions{})
	if err != nil {
		return explainMesh(err, t.Namespace)
	}
	states := mode.VerifyMesh(t.MeshSettings, meshObjects(listed))
	// The table comes first; the exit code reports the result to scripts.
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
		return exit.Status{Code: exit.Failure, Err: fmt.Errorf("%d of %d paths do not lead to the runtime %s: slipway runtime mesh generate --runtime %[3]s --gateway GATEWAY prints the missing VirtualServices", missing, len(states), t.Runtime)}
	}
	return nil
}

// meshObjects converts a list for package mode, which does not import
// client-go.
func meshObjects(listed *unstructured.UnstructuredList) []mode.Object {
	var objects []mode.Object
	for i := range listed.Items {
		objects = append(objects, listed.Items[i].Object)
	}
	return objects
}

// printMesh prints the state of the paths, one row each. By names the
// VirtualService that a path matched, which helps to find conflicting ones.
func printMesh(w io.Writer, states []mode.PathState, output *printer.Output) error {
	if output.Form != printer.FormTable {
		return output.Encode(w, map[string]any{"paths": states})
	}
	return printer.List(w, []string{"HOST", "PATH", "STATE", "VIRTUALSERVICE", "MESSAGE"}, states, func(state mode.PathState) []string {
		word := "missing"
		if state.OK {
			word = "ok"
		}
		return []string{state.Host, state.Path, word, printer.OrDash(state.By), state.Message}
	})
}

// explainMesh turns an error of the API server into one with a remedy: a
// missing Istio and missing permissions are the common causes. Other errors are
// wrapped with the namespace.
func explainMesh(err error, namespace string) error {
	switch {
	case err == nil:
		return nil
	case kube.MissingKind(err):
		return errors.New("the cluster has no VirtualServices: install Istio first, or choose another --context")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not do that with VirtualServices in the namespace %s: request the permission on virtualservices.%s", namespace, mode.IstioGroup)
	}
	return fmt.Errorf("VirtualServices of the namespace %s: %w", namespace, err)
}
