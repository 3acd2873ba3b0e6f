// Package appcmd is the command slipway app: Applications of a cluster, read
// with the user's own rights through the Kubernetes API, or of runtimes,
// through the platform.
//
// Both ways implement appBackend, so that every subcommand prints the same for
// both. Secret values are never printed.
package appcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/revert"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// errTimeout is the cause of a context whose wait took too long. It
// distinguishes the timeout from Ctrl-C, which leaves context.Canceled.
var errTimeout = inspect.ErrTimeout

// application is a decoded Application with its unstructured object, which -o
// json and -o yaml print without loss.
type application = inspect.Application

// appBackend reads and changes Applications: those of a cluster, with the
// user's own rights (appCluster), or those of a runtime that the platform
// reaches (remoteApps). The subcommands see only this interface, so that both
// print the same.
type appBackend interface {
	// home is the namespace of Applications that are named without one. It is
	// empty if the backend resolves names itself.
	home() string
	// list returns the Applications of a namespace, or of all with an empty
	// one, sorted by name.
	list(ctx context.Context, namespace, selector string) ([]*application, error)
	get(ctx context.Context, place tracking.App) (*application, error)
	// tree, diff and logs report to warnings what limits their result, such as
	// kinds that the user may not list, and go on.
	tree(ctx context.Context, app *application, warnings io.Writer) (*inspect.Node, error)
	diff(ctx context.Context, app *application, given *diffFlags, warnings io.Writer) ([]inspect.ObjectDiff, error)
	// sync and rollback request an operation and do not wait for it. The info
	// that they return is written into the operation and identifies it among
	// others.
	sync(ctx context.Context, app *application, sync *v1alpha1.SyncOperation) (v1alpha1.Info, error)
	rollback(ctx context.Context, app *application, given *rollbackFlags) (v1alpha1.Info, error)
	// revert writes the files of a past sync to Git. What was written is returned
	// with an error, too.
	revert(ctx context.Context, app *application, given *rollbackFlags, warnings io.Writer) ([]revert.Written, error)
	terminate(ctx context.Context, app *application) error
	// actions and runAction are about one object of the Application. The
	// latter returns the objects that changed.
	actions(ctx context.Context, app *application, key tracking.Key) ([]*runtimev1.ResourceAction, error)
	runAction(ctx context.Context, app *application, key tracking.Key, name string, parameters map[string]string) ([]tracking.Key, error)
	logs(ctx context.Context, app *application, given *logFlags, out, warnings io.Writer) error
	// releases returns a line for each release of the Application that runs, or
	// that was rolled back.
	releases(ctx context.Context, app *application) ([]string, error)
	// owner returns the replica of the agent that reconciles the Application; empty if
	// the replicas do not divide the Applications, or if it cannot be read.
	owner(ctx context.Context, app *application) string
	// wait calls done for every state of the Application until done reports
	// nothing missing or an error. The last state is returned also with an
	// error, and is nil if there was none.
	wait(ctx context.Context, place tracking.App, done func(*application) (missing string, err error)) (*application, error)
	// close releases the connections. Every backend is closed once.
	close()
}

// Command returns the command slipway app. The flags that choose a cluster or a
// platform are persistent, so all subcommands share one appAccess.
func Command() *cobra.Command {
	access := &appAccess{}
	command := &cobra.Command{
		Use:   "app",
		Short: "Inspect and sync Applications",
		Long: `Show Applications, compare them with Git, and sync them.

With a current platform context (slipway login), requests go to the platform: app
list shows the Applications of all runtimes, and the other commands find the runtime
by the name of the Application. With --direct, --kubeconfig or --context, and without
a platform, requests go to the Kubernetes API with your own permissions: the cluster
is the one that kubectl would use.

An Application is named by its name, or by namespace/name.`,
	}
	flags := command.PersistentFlags()
	kubeflags.Add(flags, &access.choice)
	flags.StringVarP(&access.namespace, "namespace", "n", "", "namespace of the Application (default that of the context, or of the runtime)")
	flags.BoolVar(&access.direct, "direct", false, "use the cluster of the kubeconfig instead of a platform")
	// Both kinds of flags are on every subcommand; through refuses a mix of
	// them.
	access.platform.AddRuntimeFlags(flags)
	_ = command.RegisterFlagCompletionFunc("runtime", access.platform.CompleteRuntimes)    // the flag is there
	_ = command.RegisterFlagCompletionFunc("platform-context", apiclient.CompleteContexts) // the flag is there
	command.AddCommand(
		appListCommand(access),
		appGetCommand(access),
		appTreeCommand(access),
		appDiffCommand(access),
		appSyncCommand(access),
		appRollbackCommand(access),
		appTerminateCommand(access),
		appActionCommand(access),
		appHistoryCommand(access),
		appLogsCommand(access),
		appWaitCommand(access),
		appMigrateCommand(access),
	)
	return command
}

// appAccess holds the flags of the group, which decide how the subcommands
// reach Applications. It is filled by cobra before a subcommand runs.
type appAccess struct {
	// choice selects the cluster of the kubeconfig.
	choice    kube.UserChoice
	namespace string
	direct    bool
	// platform selects the platform and the runtime.
	platform apiclient.Choice
}

// through reports whether requests go to a platform, and refuses flags for
// both. Without flags the current context decides, so that a user who signed in
// need not repeat it.
func (a *appAccess) through() (bool, error) {
	direct := a.direct || a.choice.Kubeconfig != "" || a.choice.Context != ""
	// A flag of either kind decides; flags of both kinds are a contradiction.
	// SLIPWAY_RUNTIME is no flag: it only names a runtime once a platform is
	// chosen.
	named := a.platform.Url != "" || a.platform.Context != "" || a.platform.Runtime != ""
	switch {
	case direct && named:
		return false, exit.UsageError{Err: errors.New("a cluster and a platform cannot be combined: choose one of them")}
	case direct || named:
		return named, nil
	}
	// No flag decides: SLIPWAY_URL or a current context means the platform.
	return currentPlatform()
}

// open returns the backend of the cluster of the kubeconfig. It sends nothing
// yet. The namespace of the flag wins over that of the kubeconfig's context.
func (a *appAccess) open() (appBackend, error) {
	cluster, err := kubeflags.Connect(a.choice)
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(a.namespace, cluster.Namespace)
	return &appCluster{Inspector: &inspect.Inspector{Cluster: cluster, Manager: "slipway-cli"}, namespace: namespace}, nil
}

// openFor opens the backend that has an Application and parses its name. A
// caller that gets no error closes the backend.
func (a *appAccess) openFor(ctx context.Context, name string) (appBackend, tracking.App, error) {
	through, err := a.through()
	if err != nil {
		return nil, tracking.App{}, err
	}
	if through {
		return a.openRemote(ctx, name)
	}
	backend, err := a.open()
	if err != nil {
		return nil, tracking.App{}, err
	}
	// The namespace of the kubeconfig's context is the default, as with
	// kubectl.
	place, err := applicationPlace(backend.home(), name)
	if err != nil {
		backend.close()
	}
	return backend, place, err
}

// find opens the backend and reads the Application. A caller that gets no error
// closes the backend; after an error it is closed here.
func (a *appAccess) find(ctx context.Context, name string) (appBackend, *application, error) {
	backend, place, err := a.openFor(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	app, err := backend.get(ctx, place)
	if err != nil {
		backend.close()
		return nil, nil, err
	}
	return backend, app, nil
}

// with returns a command's function that works on the Application of the first
// argument.
func (a *appAccess) with(run func(*cobra.Command, appBackend, *application) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		backend, app, err := a.find(command.Context(), args[0])
		if err != nil {
			return err
		}
		defer backend.close()
		return run(command, backend, app)
	}
}

// applicationPlace parses NAME or NAMESPACE/NAME; home is the namespace of a
// bare name and may be empty. A second slash or an empty part is a usage error.
func applicationPlace(home, name string) (tracking.App, error) {
	app, err := tracking.ParseApp(home, name)
	if err != nil {
		return app, exit.UsageError{Err: err}
	}
	return app, nil
}

// oneName is the argument check of commands for one Application. Cobra's own
// message would not point to the list of names.
func oneName(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one Application: slipway app list shows them", command.CommandPath())
	}
	return nil
}
