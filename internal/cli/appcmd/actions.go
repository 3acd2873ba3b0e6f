package appcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// actionFlags choose the objects of an action.
type actionFlags struct {
	resources  []string
	parameters map[string]string
}

// appActionCommand returns the commands of resource actions.
func appActionCommand(access *appAccess) *cobra.Command {
	command := &cobra.Command{
		Use:   "action",
		Short: "List and run actions of objects, such as a restart",
		Long: `Actions are those of Argo CD and of the ConfigMap argocd-cm. The runtime runs them
within the limits of the project; they need the right action/GROUP/KIND/ACTION.`,
	}
	command.AddCommand(appActionListCommand(access), appActionRunCommand(access))
	return command
}

// chooseObjects returns the objects that --resource selects. Without it there is
// none: an action on all objects is asked for with --resource '*:*:*'.
func (f *actionFlags) chooseObjects(app *application) ([]v1alpha1.SyncOperationResource, error) {
	if len(f.resources) == 0 {
		return nil, exit.UsageError{Err: errors.New("choose objects with --resource, such as --resource apps:Deployment:web")}
	}
	return chooseResources(app, f.resources)
}

// add adds the flags to a command.
func (f *actionFlags) add(command *cobra.Command) {
	command.Flags().StringArrayVar(&f.resources, "resource", nil, "object, as group:kind:name or group:kind:namespace/name; * selects all; may be repeated")
}

// appActionListCommand returns the command that lists the actions of objects.
func appActionListCommand(access *appAccess) *cobra.Command {
	given := &actionFlags{}
	command := &cobra.Command{
		Use:     "list APP",
		Short:   "List the actions of objects",
		Example: `  slipway app action list shop --resource apps:Deployment:web`,
		Args:    oneName,
	}
	given.add(command)
	command.RunE = access.with(func(command *cobra.Command, backend appBackend, app *application) error {
		objects, err := given.chooseObjects(app)
		if err != nil {
			return err
		}
		rows, flush := printer.NewTable(command.OutOrStdout())
		rows.Row("OBJECT", "ACTION", "PARAMETERS", "STATE")
		for _, object := range objects {
			key := keyOfResource(object)
			actions, err := backend.actions(command.Context(), app, key)
			if err != nil {
				return err
			}
			for _, one := range actions {
				rows.Row(key.String(), one.GetName(), printer.OrDash(strings.Join(one.GetParameters(), ", ")), actionState(one))
			}
		}
		return flush()
	})
	return command
}

// actionState describes whether an action can be run.
func actionState(one *runtimev1.ResourceAction) string {
	switch {
	case !one.GetAllowed():
		return "not permitted"
	case one.GetDisabled():
		return "disabled"
	}
	return "available"
}

// appActionRunCommand returns the command that runs an action.
func appActionRunCommand(access *appAccess) *cobra.Command {
	given := &actionFlags{}
	command := &cobra.Command{
		Use:   "run APP ACTION",
		Short: "Run an action of objects",
		Example: `  slipway app action run shop restart --resource apps:Deployment:web
  slipway app action run shop scale --resource apps:Deployment:web --param replicas=3`,
		Args: cobra.ExactArgs(2),
	}
	given.add(command)
	command.Flags().StringToStringVar(&given.parameters, "param", nil, "parameter of the action, as name=value; may be repeated")
	command.RunE = func(command *cobra.Command, args []string) error {
		run := func(command *cobra.Command, backend appBackend, app *application) error {
			return runAction(command, backend, app, args[1], given)
		}
		return access.with(run)(command, args)
	}
	return command
}

// runAction runs an action of each chosen object, and ends at the first that
// fails: the others may depend on it.
func runAction(command *cobra.Command, backend appBackend, app *application, name string, given *actionFlags) error {
	objects, err := given.chooseObjects(app)
	if err != nil {
		return err
	}
	for _, object := range objects {
		key := keyOfResource(object)
		changed, err := backend.runAction(command.Context(), app, key, name, given.parameters)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		for _, one := range changed {
			if _, err := fmt.Fprintf(command.OutOrStdout(), "%s: %s\n", name, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// keyOfResource returns the key of a chosen object.
func keyOfResource(object v1alpha1.SyncOperationResource) tracking.Key {
	return tracking.Key{Group: object.Group, Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}
}

// errDirectAction is why a cluster alone has no actions: the project and the
// rights of the user are the runtime's to check.
var errDirectAction = exit.UsageError{Err: errors.New("actions are run by a runtime: leave out --direct, --kubeconfig and --context, or use kubectl")}

// actions implements appBackend.
func (c *appCluster) actions(context.Context, *application, tracking.Key) ([]*runtimev1.ResourceAction, error) {
	return nil, errDirectAction
}

// runAction implements appBackend.
func (c *appCluster) runAction(context.Context, *application, tracking.Key, string, map[string]string) ([]tracking.Key, error) {
	return nil, errDirectAction
}

// actions implements appBackend.
func (r *remoteApps) actions(ctx context.Context, app *application, key tracking.Key) ([]*runtimev1.ResourceAction, error) {
	response, err := r.client.ListActions(ctx, connect.NewRequest(&runtimev1.ListActionsRequest{Ref: remoteRef(app.ID()), Object: remoteObject(key)}))
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	return response.Msg.GetActions(), nil
}

// runAction implements appBackend.
func (r *remoteApps) runAction(ctx context.Context, app *application, key tracking.Key, name string, parameters map[string]string) ([]tracking.Key, error) {
	response, err := r.client.RunAction(ctx, connect.NewRequest(&runtimev1.RunActionRequest{
		Ref: remoteRef(app.ID()), Object: remoteObject(key), Action: name, Parameters: parameters,
	}))
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	var changed []tracking.Key
	for _, ref := range response.Msg.GetObjects() {
		changed = append(changed, remoteKey(ref))
	}
	return changed, nil
}
