// Package clustercmd is the command slipway cluster: it adds clusters to a
// runtime, lists them and removes them.
//
// Adding creates a service account in the other cluster with the user's own
// rights, and hands its token to the runtime. What a failed or interrupted
// addition created is removed again.
package clustercmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// Command returns the command slipway cluster (R116). Every subcommand is about
// one runtime and goes through the platform.
func Command() *cobra.Command {
	choice := &apiclient.Choice{}
	command := apiclient.GroupCommand("cluster", "Manage the clusters that a runtime deploys to", choice, true)
	command.AddCommand(clusterListCommand(choice), clusterAddCommand(choice), clusterRemoveCommand(choice))
	return command
}

// clusterListCommand returns the command that lists the clusters of a runtime
// with their status, as the runtime sees them.
func clusterListCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the clusters of a runtime", Args: cobra.NoArgs}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, _ []string) error {
		response, err := apiclient.Call(command.Context(), client, client.Clusters(runtime).ListClusters, &runtimev1.ListClustersRequest{})
		if err != nil {
			return err
		}
		return printer.Show(command, output, response, func(w io.Writer) error { return printManaged(w, response.GetClusters()) })
	})
	return command
}

// printManaged prints clusters as a table. Labels are sorted, because a map has
// no order and the output should be stable.
func printManaged(w io.Writer, clusters []*runtimev1.ManagedCluster) error {
	return printer.List(w, []string{"NAME", "SERVER", "VERSION", "STATUS", "NAMESPACES", "TOKEN_EXPIRES", "LABELS", "MESSAGE"}, clusters, func(one *runtimev1.ManagedCluster) []string {
		namespaces := cmp.Or(strings.Join(one.GetNamespaces(), ","), "all")
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(one.GetLabels())) {
			labels = append(labels, key+"="+one.GetLabels()[key])
		}
		return []string{one.GetName(), one.GetServer(), printer.OrDash(one.GetVersion()), printer.OrDash(one.GetStatus()), namespaces,
			printer.Timestamp(one.GetTokenExpiresAt()), printer.OrDash(strings.Join(labels, ",")), one.GetMessage()}
	})
}

// clusterAddFlags describe the cluster to add. Empty namespaces mean the whole
// cluster.
type clusterAddFlags struct {
	choice          kube.UserChoice
	server          string
	labels          map[string]string
	annotations     map[string]string
	systemNamespace string
	namespaces      []string
	dryRun, replace bool
	yes             bool
}

// clusterAddCommand returns the command that adds a cluster to a runtime. The
// kubeconfig is read here, with the user's rights; the runtime gets only the
// address, the CA and a token.
func clusterAddCommand(choice *apiclient.Choice) *cobra.Command {
	given := &clusterAddFlags{}
	command := &cobra.Command{
		Use:   "add [NAME]",
		Short: "Add a cluster to a runtime",
		Long: `Creates a service account in another cluster with the permissions that the runtime
needs there, requests a token from that cluster that is valid for a day, and gives it
to the runtime, which renews it. The objects to create are shown first. The
certificate of the cluster is always verified.

With --namespaces the runtime gets permissions in those namespaces only; without it,
the runtime is a cluster administrator. With --dry-run nothing is created: the
manifests are printed, and your permission to create them is checked. When a step
fails, the created objects are removed.`,
		Example: `  slipway cluster add staging --runtime prod --context staging
  slipway cluster add shop --runtime prod --context staging --namespaces shop,shop-jobs --labels team=shop --dry-run`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&given.choice.Kubeconfig, "kubeconfig", "", "kubeconfig file (default KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&given.choice.Context, "context", "", "context of the kubeconfig with the cluster to add (default its current one)")
	flags.StringVar(&given.server, "server", "", "URL at which the runtime reaches the cluster (default that of the kubeconfig)")
	flags.StringToStringVar(&given.labels, "labels", nil, "labels of the cluster, as key=value,key=value")
	flags.StringToStringVar(&given.annotations, "annotations", nil, "annotations of the cluster, as key=value,key=value")
	flags.StringVar(&given.systemNamespace, "system-namespace", "kube-system", "namespace of the service account")
	flags.StringSliceVar(&given.namespaces, "namespaces", nil, "only these namespaces (default the whole cluster)")
	flags.BoolVar(&given.dryRun, "dry-run", false, "print the manifests and check permissions without creating anything")
	flags.BoolVar(&given.replace, "replace", false, "replace the cluster with this name and address")
	flags.BoolVarP(&given.yes, "yes", "y", false, "do not ask for confirmation")
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		cluster, err := kubeflags.Connect(given.choice)
		if err != nil {
			return err
		}
		defer cluster.Close()
		name := given.name(cluster)
		if len(args) == 1 {
			name = args[0]
		}
		adding := &clusterAddition{clusterAddFlags: given, command: command, platform: client, runtime: runtime, cluster: cluster, name: name}
		return adding.run()
	})
	return command
}

// name returns the default name of the cluster: the context of the kubeconfig,
// or the host.
func (g *clusterAddFlags) name(cluster *kube.Cluster) string {
	return cmp.Or(g.choice.Context, kubeflags.HostOf(cluster.Config.Host))
}

// clusterRemoveFlags describe the cluster to remove. The kubeconfig is used for
// --clean-up alone.
type clusterRemoveFlags struct {
	choice          kube.UserChoice
	server          string
	systemNamespace string
	force, cleanUp  bool
	yes             bool
}

// clusterRemoveCommand returns the command that removes a cluster from a
// runtime. Objects that the runtime deployed there stay.
func clusterRemoveCommand(choice *apiclient.Choice) *cobra.Command {
	given := &clusterRemoveFlags{}
	command := &cobra.Command{
		Use:   "remove [NAME]",
		Short: "Remove a cluster from a runtime",
		Long: `Removes a cluster from a runtime. Deployed objects stay. With --clean-up the service
account and its permissions are also deleted in that cluster, which --kubeconfig and
--context select; another runtime that uses the same service account loses access to
the cluster.`,
		Example: `  slipway cluster remove staging --runtime prod
  slipway cluster remove --server-url https://staging.example.com:6443 --runtime prod --clean-up --context staging`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&given.server, "server-url", "", "URL of the cluster, instead of its name")
	flags.StringVar(&given.choice.Kubeconfig, "kubeconfig", "", "kubeconfig file for --clean-up (default KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&given.choice.Context, "context", "", "context of the kubeconfig for --clean-up (default its current one)")
	flags.StringVar(&given.systemNamespace, "system-namespace", "kube-system", "namespace of the service account, for --clean-up")
	flags.BoolVar(&given.force, "force", false, "remove it even if Applications deploy to it; they are not changed")
	flags.BoolVar(&given.cleanUp, "clean-up", false, "also delete the objects of slipway cluster add in the cluster")
	flags.BoolVarP(&given.yes, "yes", "y", false, "do not ask for confirmation")
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		if (len(args) == 1) == (given.server != "") {
			return exit.UsageError{Err: errors.New("name the cluster: by its name, or by --server-url")}
		}
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		return given.remove(command, client, runtime, name)
	})
	return command
}

// remove removes the cluster after a confirmation. The cluster for --clean-up
// is connected and compared first, so that a wrong context is found before
// anything is removed. Without --clean-up it prints the kubectl commands that
// delete the service account.
func (g *clusterRemoveFlags) remove(command *cobra.Command, client *apiclient.Client, runtime, name string) error {
	ctx := command.Context()
	found, err := client.FindCluster(ctx, runtime, name, g.server)
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("the runtime %s has no cluster %s: slipway cluster list --runtime %s shows them", runtime, printer.Printable(name+g.server), runtime)
	}
	var far *kube.Cluster
	if g.cleanUp {
		// Before the prompt and the request: the wrong cluster is found out
		// before anything is removed.
		if far, err = g.connect(found); err != nil {
			return err
		}
		defer far.Close()
	}
	if err := prompt.New(command).Confirm(fmt.Sprintf("Remove the cluster %s (%s) from the runtime %s?", printer.Printable(found.GetName()), printer.Printable(found.GetServer()), runtime), g.yes); err != nil {
		return err
	}
	_, err = apiclient.Call(ctx, client, client.Clusters(runtime).RemoveCluster, &runtimev1.RemoveClusterRequest{Name: found.GetName(), Force: g.force})
	if err != nil {
		return err
	}
	printer.Note(command, "The runtime %s has forgotten the cluster %s.", runtime, found.GetName())
	if far == nil {
		printer.Note(command, "Its service account is still in that cluster. To delete it and its rights:")
		_, err := fmt.Fprint(command.OutOrStdout(), cleanUpCommands(g.systemNamespace, found.GetNamespaces()))
		return err
	}
	// Last: while the runtime still had the cluster, its requests would fail
	// without the service account.
	return deleteAccess(command, far, accessObjects(g.systemNamespace, found.GetNamespaces()))
}

// connect connects to the cluster that is removed, and refuses another:
// --clean-up would delete there. The address of the kubeconfig has to equal the
// one that the runtime uses.
func (g *clusterRemoveFlags) connect(found *runtimev1.ManagedCluster) (*kube.Cluster, error) {
	far, err := kubeflags.Connect(g.choice)
	if err != nil {
		return nil, err
	}
	if strings.TrimSuffix(far.Config.Host, "/") != found.GetServer() {
		far.Close()
		return nil, exit.UsageError{Err: fmt.Errorf("the kubeconfig leads to %s, and the cluster %s is at %s: choose its --context; nothing was done", far.Config.Host, printer.Printable(found.GetName()), printer.Printable(found.GetServer()))}
	}
	return far, nil
}
