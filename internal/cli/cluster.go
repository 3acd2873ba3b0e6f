package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// clusterCommand is `slipway cluster` (R116).
func clusterCommand() *cobra.Command {
	choice := &platformChoice{}
	command := platformGroup("cluster", "Add, list and remove the clusters that a runtime deploys to", choice, true)
	command.AddCommand(clusterListCommand(choice), clusterAddCommand(choice), clusterRemoveCommand(choice))
	return command
}

func clusterListCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the clusters of a runtime", Args: cobra.NoArgs}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withRuntime(choice, output, func(command *cobra.Command, client *platformClient, runtime string, _ []string) error {
		answer, err := ask(command.Context(), client, client.clusters(runtime).ListClusters, &runtimev1.ListClustersRequest{})
		if err != nil {
			return err
		}
		return showMessage(command, output, answer, func(w io.Writer) error { return printManaged(w, answer.GetClusters()) })
	})
	return command
}

func printManaged(w io.Writer, clusters []*runtimev1.ManagedCluster) error {
	rows, flush := newTable(w)
	rows.row("NAME", "SERVER", "VERSION", "STATUS", "NAMESPACES", "TOKEN_EXPIRES", "LABELS", "MESSAGE")
	for _, one := range clusters {
		namespaces := strings.Join(one.GetNamespaces(), ",")
		if namespaces == "" {
			namespaces = "all"
		}
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(one.GetLabels())) {
			labels = append(labels, key+"="+one.GetLabels()[key])
		}
		rows.row(one.GetName(), one.GetServer(), orNone(one.GetVersion()), orNone(one.GetStatus()), namespaces,
			shownStamp(one.GetTokenExpiresAt()), orNone(strings.Join(labels, ",")), one.GetMessage())
	}
	return flush()
}

// clusterAddFlags say which cluster is added, and how.
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

func clusterAddCommand(choice *platformChoice) *cobra.Command {
	given := &clusterAddFlags{}
	command := &cobra.Command{
		Use:   "add [NAME]",
		Short: "Have a runtime deploy to another cluster",
		Long: `Makes a service account in another cluster, with the rights that the runtime needs
there, asks that cluster for a token which is good for a day, and gives it to the
runtime, which renews it. What is made is shown first. The certificate of the
cluster is always verified.

With --namespaces the runtime gets the rights of those namespaces only; without, it
is an administrator of the cluster. With --dry-run nothing is made: the manifests
are printed, and it is checked whether you may make them. When something fails,
what was made is taken back.`,
		Example: `  slipway cluster add staging --runtime prod --context staging
  slipway cluster add shop --runtime prod --context staging --namespaces shop,shop-jobs --labels team=shop --dry-run`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&given.choice.Kubeconfig, "kubeconfig", "", "kubeconfig file (default KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&given.choice.Context, "context", "", "context of the kubeconfig that is the cluster to add (default its current one)")
	flags.StringVar(&given.server, "server", "", "address of the cluster as the runtime reaches it (default that of the kubeconfig)")
	flags.StringToStringVar(&given.labels, "labels", nil, "labels of the cluster, as key=value,key=value")
	flags.StringToStringVar(&given.annotations, "annotations", nil, "annotations of the cluster, as key=value,key=value")
	flags.StringVar(&given.systemNamespace, "system-namespace", "kube-system", "namespace of the service account")
	flags.StringSliceVar(&given.namespaces, "namespaces", nil, "only these namespaces (default the whole cluster)")
	flags.BoolVar(&given.dryRun, "dry-run", false, "print the manifests and check, and make nothing")
	flags.BoolVar(&given.replace, "replace", false, "replace the cluster of this name and address")
	flags.BoolVarP(&given.yes, "yes", "y", false, "do not ask")
	command.RunE = withRuntime(choice, nil, func(command *cobra.Command, client *platformClient, runtime string, args []string) error {
		cluster, err := kube.ConnectUser(given.choice, kube.Version(readBuildFacts().Version))
		if err != nil {
			return usageError{err}
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

// name is what the cluster is called when nobody says: the context, or the host.
func (g *clusterAddFlags) name(cluster *kube.Cluster) string {
	if g.choice.Context != "" {
		return g.choice.Context
	}
	return hostOf(cluster.Config.Host)
}

// clusterRemoveFlags say which cluster is removed, and what of it.
type clusterRemoveFlags struct {
	choice          kube.UserChoice
	server          string
	systemNamespace string
	force, cleanUp  bool
	yes             bool
}

func clusterRemoveCommand(choice *platformChoice) *cobra.Command {
	given := &clusterRemoveFlags{}
	command := &cobra.Command{
		Use:   "remove [NAME]",
		Short: "Have a runtime forget a cluster",
		Long: `Has a runtime forget a cluster. What it deployed there stays. With --clean-up the
service account and its rights are deleted in that cluster too, which --kubeconfig
and --context lead to; another runtime that uses the same service account loses the
cluster by that.`,
		Example: `  slipway cluster remove staging --runtime prod
  slipway cluster remove --server-url https://staging.example.com:6443 --runtime prod --clean-up --context staging`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&given.server, "server-url", "", "address of the cluster, instead of its name")
	flags.StringVar(&given.choice.Kubeconfig, "kubeconfig", "", "kubeconfig file for --clean-up (default KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&given.choice.Context, "context", "", "context of the kubeconfig for --clean-up (default its current one)")
	flags.StringVar(&given.systemNamespace, "system-namespace", "kube-system", "namespace of the service account, for --clean-up")
	flags.BoolVar(&given.force, "force", false, "also if Applications deploy to it: they are left as they are")
	flags.BoolVar(&given.cleanUp, "clean-up", false, "also delete what slipway cluster add made in the cluster")
	flags.BoolVarP(&given.yes, "yes", "y", false, "do not ask")
	command.RunE = withRuntime(choice, nil, func(command *cobra.Command, client *platformClient, runtime string, args []string) error {
		if (len(args) == 1) == (given.server != "") {
			return usageError{errors.New("say which cluster: by its name, or by --server-url")}
		}
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		return given.remove(command, client, runtime, name)
	})
	return command
}

// managed finds a cluster of a runtime by name or address.
func (c *platformClient) managed(ctx context.Context, runtime, name, server string) (*runtimev1.ManagedCluster, error) {
	all, err := ask(ctx, c, c.clusters(runtime).ListClusters, &runtimev1.ListClustersRequest{})
	if err != nil {
		return nil, err
	}
	server = strings.TrimSuffix(server, "/")
	for _, one := range all.GetClusters() {
		if one.GetName() == name || server != "" && one.GetServer() == server {
			return one, nil
		}
	}
	return nil, nil
}

func (g *clusterRemoveFlags) remove(command *cobra.Command, client *platformClient, runtime, name string) error {
	ctx := command.Context()
	found, err := client.managed(ctx, runtime, name, g.server)
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("the runtime %s has no cluster %s: slipway cluster list --runtime %s shows them", runtime, printable(name+g.server), runtime)
	}
	var far *kube.Cluster
	if g.cleanUp {
		// The wrong cluster is found out before anything is removed.
		if far, err = g.connect(found); err != nil {
			return err
		}
		defer far.Close()
	}
	if err := newPrompter(command).confirm(fmt.Sprintf("Remove the cluster %s (%s) from the runtime %s?", printable(found.GetName()), printable(found.GetServer()), runtime), g.yes); err != nil {
		return err
	}
	_, err = ask(ctx, client, client.clusters(runtime).RemoveCluster, &runtimev1.RemoveClusterRequest{Name: found.GetName(), Force: g.force})
	if err != nil {
		return err
	}
	note(command, "The runtime %s has forgotten the cluster %s.", runtime, found.GetName())
	if far == nil {
		note(command, "Its service account is still in that cluster. To delete it and its rights:")
		_, err := fmt.Fprint(command.OutOrStdout(), cleanUpCommands(g.systemNamespace, found.GetNamespaces()))
		return err
	}
	return deleteAccess(command, far, accessObjects(g.systemNamespace, found.GetNamespaces()))
}

// connect reaches the cluster that is removed, and refuses another.
func (g *clusterRemoveFlags) connect(found *runtimev1.ManagedCluster) (*kube.Cluster, error) {
	far, err := kube.ConnectUser(g.choice, kube.Version(readBuildFacts().Version))
	if err != nil {
		return nil, usageError{err}
	}
	if strings.TrimSuffix(far.Config.Host, "/") != found.GetServer() {
		far.Close()
		return nil, usageError{fmt.Errorf("the kubeconfig leads to %s, and the cluster %s is at %s: choose its --context; nothing was done", far.Config.Host, printable(found.GetName()), printable(found.GetServer()))}
	}
	return far, nil
}
