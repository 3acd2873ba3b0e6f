// Package rolloutcmd is the command slipway rollout: Rollouts of Argo Rollouts and
// Releases of plain Deployments in a cluster, with the user's own rights.
//
// Its verbs and flags are those of Argo Rollouts' plugin of kubectl, and so are the
// changes of Rollouts. A command requests an action and does not wait for the
// controller; status and watch do.
package rolloutcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/gitops/progressive"
	"slipway.dev/slipway/internal/kube"
)

// completionTimeout bounds the request of a completion: a shell waits for it.
const completionTimeout = 3 * time.Second

// access holds the flags of the group.
type access struct {
	choice    kube.UserChoice
	namespace string
}

// Command returns the command slipway rollout.
func Command() *cobra.Command {
	a := &access{}
	command := &cobra.Command{
		Use:     "rollout",
		Aliases: []string{"rollouts"},
		Short:   "Follow and control canary and blue-green releases",
		Long: `Show Rollouts and Releases, and promote, pause, abort, retry or undo them.

A Rollout is an object of Argo Rollouts. A Release is the canary of a plain Deployment,
which the agent creates. Both are named by their name; write rollout/NAME or release/NAME
where a namespace has both. Requests go to the Kubernetes API with your own permissions:
the cluster is the one that kubectl would use.`,
	}
	flags := command.PersistentFlags()
	kubeflags.Add(flags, &a.choice)
	flags.StringVarP(&a.namespace, "namespace", "n", "", "namespace of the object (default that of the context)")
	command.AddCommand(
		listCommand(a), getCommand(a), watchCommand(a), statusCommand(a),
		promoteCommand(a), undoCommand(a),
	)
	for _, simple := range simpleActions() {
		command.AddCommand(simple.command(a))
	}
	return command
}

// open connects to the cluster. It sends nothing yet.
func (a *access) open() (*progressive.Reader, string, error) {
	cluster, err := kubeflags.Connect(a.choice)
	if err != nil {
		return nil, "", err
	}
	return &progressive.Reader{Cluster: cluster, Manager: "slipway-cli"}, cmp.Or(a.namespace, cluster.Namespace), nil
}

// find connects and reads the object of a name. A caller that gets no error closes
// the reader.
func (a *access) find(ctx context.Context, name string) (*progressive.Reader, *progressive.State, error) {
	kind, name, err := parseName(name)
	if err != nil {
		return nil, nil, exit.UsageError{Err: err}
	}
	reader, namespace, err := a.open()
	if err != nil {
		return nil, nil, err
	}
	var state *progressive.State
	if kind == "" {
		state, err = reader.Find(ctx, namespace, name)
	} else {
		state, err = reader.Get(ctx, progressive.ID{Kind: kind, Namespace: namespace, Name: name})
	}
	if err != nil {
		reader.Close()
		return nil, nil, explain(reader, err)
	}
	return reader, state, nil
}

// parseName takes NAME, rollout/NAME or release/NAME apart. The kind of a bare
// name is empty.
func parseName(text string) (kind progressive.Kind, name string, err error) {
	word, name, found := strings.Cut(text, "/")
	if !found {
		word, name = "", text
	}
	switch strings.ToLower(word) {
	case "":
	case "rollout", "rollouts", "ro":
		kind = progressive.KindRollout
	case "release", "releases":
		kind = progressive.KindRelease
	default:
		return "", "", fmt.Errorf("%q is no kind: write NAME, rollout/NAME or release/NAME", word)
	}
	if name == "" || found && kind == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q is no name: write NAME, rollout/NAME or release/NAME", text)
	}
	return kind, name, nil
}

// names is the argument check of commands for one object, or for several.
func names(several bool) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s takes the name of a Rollout or a Release: slipway rollout list shows them", command.CommandPath())
		case len(args) > 1 && !several:
			return fmt.Errorf("%s takes one name", command.CommandPath())
		}
		return nil
	}
}

// complete offers the names of the namespace to a shell. It never fails: a
// completion without a cluster offers nothing.
func (a *access) complete(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	reader, namespace, err := a.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	states, _ := reader.List(ctx, namespace)
	var found []string
	for _, state := range states {
		found = append(found, state.Name)
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// explain turns an error into one that names the next step for the user. Other
// errors, and nil, pass unchanged.
func explain(reader *progressive.Reader, err error) error {
	if errors.Is(err, progressive.ErrNoKinds) {
		return fmt.Errorf("%w: install their definitions with slipway crds upgrade, or choose another --context", err)
	}
	if absent := (*progressive.NotFoundError)(nil); errors.As(err, &absent) {
		return fmt.Errorf("%w: see slipway rollout list -A", err)
	}
	denied := (*progressive.AccessError)(nil)
	if !errors.As(err, &denied) {
		return err
	}
	resource := denied.ID.Kind.Resource()
	switch {
	case apierrors.IsForbidden(err):
		// The status of a Rollout is a resource of its own, which the error of the
		// API server names.
		return fmt.Errorf("you may not %s %s: request that permission on %s.%s (%w)", denied.Verb, denied.ID.Kind+"s", resource.Resource, resource.Group, denied.Err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not accept your credentials: renew the credentials of the kubeconfig, or choose another context", reader.Config.Host)
	case utilnet.IsConnectionRefused(err), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s does not respond: is the cluster up, and is it the right --kubeconfig and --context? (%w)", reader.Config.Host, denied.Err)
	}
	return err
}
