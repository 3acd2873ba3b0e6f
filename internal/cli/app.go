package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

const (
	// appRequestTimeout bounds what a command asks before it waits or streams.
	appRequestTimeout = time.Minute
	// installKinds says what to do where Argo's kinds are missing.
	installKinds = "kubectl apply --server-side -f charts/gitops-runtime/crds/"
)

// appCommand is `slipway app`: Applications, through the Kubernetes API.
func appCommand() *cobra.Command {
	access := &appAccess{}
	command := &cobra.Command{
		Use:   "app",
		Short: "Look at Applications and sync them",
		Long: `Looks at the Applications of a cluster, compares them with Git, and syncs them.
Everything goes through the Kubernetes API with your own rights: there is no
other server and no other login. The cluster is the one that kubectl would use.

An Application is named by its name, or by namespace/name.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	flags := command.PersistentFlags()
	flags.StringVar(&access.choice.Kubeconfig, "kubeconfig", "", "kubeconfig file (default KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&access.choice.Context, "context", "", "context of the kubeconfig (default its current one)")
	flags.StringVarP(&access.namespace, "namespace", "n", "", "namespace of the Application (default that of the context)")
	command.AddCommand(
		appListCommand(access),
		appGetCommand(access),
		appTreeCommand(access),
		appDiffCommand(access),
		appSyncCommand(access),
		appRollbackCommand(access),
		appTerminateCommand(access),
		appHistoryCommand(access),
		appLogsCommand(access),
		appWaitCommand(access),
	)
	return command
}

// appAccess is how the commands reach a cluster.
type appAccess struct {
	choice    kube.UserChoice
	namespace string
}

// appCluster is a cluster whose Applications are asked for.
type appCluster struct {
	*kube.Cluster
	// namespace is where Applications are looked for.
	namespace string
}

// open connects. It sends nothing yet.
func (a *appAccess) open() (*appCluster, error) {
	cluster, err := kube.ConnectUser(a.choice, kube.Version(readBuildFacts().Version))
	if err != nil {
		return nil, usageError{err}
	}
	namespace := a.namespace
	if namespace == "" {
		namespace = cluster.Namespace
	}
	return &appCluster{Cluster: cluster, namespace: namespace}, nil
}

// application is an Application as it was read.
type application struct {
	*v1alpha1.Application
	object  *unstructured.Unstructured
	refused []v1alpha1.Refused
}

// id is the identity of the Application.
func (a *application) id() tracking.App {
	return tracking.App{Namespace: a.Namespace, Name: a.Name}
}

// decodeApplication reads an Application.
func decodeApplication(object *unstructured.Unstructured) (*application, error) {
	app, refused, err := v1alpha1.Decode(object.Object)
	if err != nil {
		return nil, fmt.Errorf("read the Application %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return &application{Application: app, object: object, refused: refused}, nil
}

// applicationsResource is where the API server has Applications.
func applicationsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "applications"}
}

// applications are those of a namespace, or of all.
func (c *appCluster) applications(namespace string) dynamic.ResourceInterface {
	return c.Dynamic.Resource(applicationsResource()).Namespace(namespace)
}

// place takes namespace/name apart, or adds the namespace.
func (c *appCluster) place(name string) (tracking.App, error) {
	app := tracking.App{Namespace: c.namespace, Name: name}
	if namespace, rest, qualified := strings.Cut(name, "/"); qualified {
		app = tracking.App{Namespace: namespace, Name: rest}
	}
	if app.Namespace == "" || app.Name == "" || strings.Contains(app.Name, "/") {
		return app, usageError{fmt.Errorf("%q is no name of an Application: write NAME, or NAMESPACE/NAME", name)}
	}
	return app, nil
}

// get reads an Application. One that is not where it was looked for is looked
// for elsewhere, to say where it is.
func (c *appCluster) get(ctx context.Context, name string) (*application, error) {
	place, err := c.place(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, appRequestTimeout)
	defer cancel()
	object, err := c.applications(place.Namespace).Get(ctx, place.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return decodeApplication(object)
	case apierrors.IsNotFound(err) && !missingKind(err):
		return nil, fmt.Errorf("there is no Application %s in the namespace %s%s", place.Name, place.Namespace, c.elsewhere(ctx, place))
	}
	return nil, c.explain(err, "get", place.Namespace)
}

// elsewhere says in which namespaces there is an Application of a name.
func (c *appCluster) elsewhere(ctx context.Context, place tracking.App) string {
	found, err := c.applications(metav1.NamespaceAll).List(ctx, kube.Named(place.Name))
	if err != nil || len(found.Items) == 0 {
		return ": see slipway app list -A"
	}
	var namespaces []string
	for _, item := range found.Items {
		namespaces = append(namespaces, "-n "+item.GetNamespace())
	}
	return ", but there is one elsewhere: try " + strings.Join(namespaces, " or ")
}

// explain says what to do about an error of the API server.
func (c *appCluster) explain(err error, verb, namespace string) error {
	where := "in the namespace " + namespace
	if namespace == metav1.NamespaceAll {
		where = "in all namespaces"
	}
	switch {
	case err == nil:
		return nil
	case missingKind(err):
		return fmt.Errorf("the cluster does not know Applications: install their definitions with %s", installKinds)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s Applications %s: ask for that right on applications.%s, or choose another namespace with -n", verb, where, v1alpha1.Group)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not know you: renew the credentials of the kubeconfig, or choose another context", c.Config.Host)
	case utilnet.IsConnectionRefused(err), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s does not answer: is the cluster up, and is it the right --kubeconfig and --context? (%w)", c.Config.Host, err)
	}
	return fmt.Errorf("%s Applications %s: %w", verb, where, err)
}

// missingKind reports whether the API server does not know the kind at all: it
// names no object then.
func missingKind(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// oneName is the argument of commands for one Application.
func oneName(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one Application: slipway app list shows them", command.CommandPath())
	}
	return nil
}
