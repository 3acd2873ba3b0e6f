package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// firstTokenLife is the lifetime of the first token. The runtime renews it long
// before; the bound limits a token that never reaches the runtime.
const firstTokenLife = 24 * time.Hour

// clusterAddition is one run of cluster add. It borrows both clients; the
// command closes them.
type clusterAddition struct {
	*clusterAddFlags
	// command gives the context, the output and the prompt.
	command  *cobra.Command
	platform *apiclient.Client
	runtime  string
	// cluster is the cluster to add, reached with the user's kubeconfig, and
	// name its name in the runtime.
	cluster *kube.Cluster
	name    string
}

// run checks everything, shows the objects that it will create, asks for
// confirmation, and adds the cluster. A dry run ends before the prompt.
func (a *clusterAddition) run() error {
	request, err := a.request()
	if err != nil {
		return err
	}
	objects := accessObjects(a.systemNamespace, a.namespaces)
	text, err := accessYAML(objects)
	if err != nil {
		return err
	}
	// One timeout for checks, prompt and addition together.
	ctx, cancel := context.WithTimeout(a.command.Context(), 2*kubeflags.RequestTimeout)
	defer cancel()
	if err := a.check(ctx, request, objects); err != nil {
		return err
	}
	// Everything is checked in a dry run too: it shows whether the addition
	// would succeed.
	if a.dryRun {
		_, err := io.WriteString(a.command.OutOrStdout(), text)
		printer.Note(a.command, "Nothing was made: %s at %s can be added to the runtime %s.", a.name, request.GetServer(), a.runtime)
		return err
	}
	printer.Note(a.command, "In the cluster at %s this is made:\n", a.cluster.Config.Host)
	_, _ = io.WriteString(a.command.ErrOrStderr(), text)
	if err := prompt.New(a.command).Confirm("Make it, and give the runtime "+a.runtime+" a token for it?", a.yes); err != nil {
		return err
	}
	added, err := a.add(ctx, request, objects)
	if err != nil {
		return err
	}
	// Last: the runtime has its scoped rights and a token that uses them.
	if len(a.namespaces) > 0 && a.replace {
		if err := a.narrow(ctx); err != nil {
			return err
		}
	}
	return printManaged(a.command.OutOrStdout(), []*runtimev1.ManagedCluster{added})
}

// request builds the request to the runtime, without the token, and validates
// the kubeconfig and the flags without a request. It refuses a kubeconfig that
// skips verification or overrides the server name: the runtime verifies
// certificates by the host that it connects to.
func (a *clusterAddition) request() (*runtimev1.AddClusterRequest, error) {
	config := a.cluster.Config
	switch {
	case config.Insecure:
		return nil, exit.UsageError{Err: errors.New("the kubeconfig turns the check of the certificate off, which a runtime never does: give it certificate-authority-data")}
	case config.ServerName != "":
		return nil, exit.UsageError{Err: errors.New("the kubeconfig has a tls-server-name, which a runtime cannot use: name an address with --server that the certificate is for")}
	}
	// A kubeconfig may name a file instead; the runtime cannot read it, so it
	// gets the content.
	authorities := config.CAData
	if len(authorities) == 0 && config.CAFile != "" {
		var err error
		if authorities, err = files.ReadAuthorities(config.CAFile); err != nil {
			return nil, exit.UsageError{Err: fmt.Errorf("the authority of the cluster: %w", err)}
		}
	}
	for _, namespace := range append([]string{a.systemNamespace}, a.namespaces...) {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			return nil, exit.UsageError{Err: fmt.Errorf("%q is no namespace: %s", namespace, wrong[0])}
		}
	}
	if config.Proxy != nil {
		printer.Note(a.command, "The kubeconfig has a proxy; the runtime goes its own way to the cluster.")
	}
	server := config.Host
	if a.server != "" {
		server = a.server
	}
	if !strings.HasPrefix(server, "https://") {
		return nil, exit.UsageError{Err: fmt.Errorf("the address of the cluster is %s: name one with --server such as https://host:6443", server)}
	}
	return &runtimev1.AddClusterRequest{
		Name: a.name, Server: strings.TrimSuffix(server, "/"), CertificateAuthority: authorities,
		ServiceAccount: managerAccount, ServiceAccountNamespace: a.systemNamespace,
		Labels: a.labels, Annotations: a.annotations, Namespaces: a.namespaces, Replace: a.replace,
	}, nil
}

// check finds the reasons for a failure before anything is created: names and
// addresses in use, wider rights that would stay, missing namespaces, and
// missing rights of the user.
func (a *clusterAddition) check(ctx context.Context, request *runtimev1.AddClusterRequest, objects []accessObject) error {
	// Name and address are searched separately, because each may belong to
	// another cluster. Only --replace with both equal is allowed.
	for _, look := range []struct{ name, server string }{{a.name, ""}, {"", request.GetServer()}} {
		there, err := a.platform.FindCluster(ctx, a.runtime, look.name, look.server)
		if err != nil {
			return err
		}
		if there != nil && (!a.replace || there.GetName() != a.name || there.GetServer() != request.GetServer()) {
			return fmt.Errorf("the runtime %s has the cluster %s at %s already: remove it first, choose another name, or use --replace for the same name and address",
				a.runtime, printer.Printable(there.GetName()), printer.Printable(there.GetServer()))
		}
	}
	if err := a.noWiderRights(ctx); err != nil {
		return err
	}
	for _, namespace := range a.namespaces {
		_, err := a.cluster.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		// Other errors are ignored: the user may create roles in a namespace
		// without the right to read it, and mayMake checks that right.
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster has no namespace %s: make it first", namespace)
		}
	}
	return a.mayMake(ctx, objects)
}

// mayMake checks with the API server whether the user may create the objects
// (SelfSubjectAccessReview). It reports all missing rights at once. RBAC
// escalation is not covered by the review; granting may still be refused and is
// then undone.
func (a *clusterAddition) mayMake(ctx context.Context, objects []accessObject) error {
	var problems []error
	for _, object := range objects {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: object.resource.Group, Version: object.resource.Version, Resource: object.resource.Resource,
			Namespace: object.GetNamespace(), Verb: "create",
		}}}
		response, err := a.cluster.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("check your permissions in the cluster at %s: %w", a.cluster.Config.Host, err)
		}
		if !response.Status.Allowed {
			problems = append(problems, fmt.Errorf("you may not make the %s in the cluster: use a --context of an administrator", object))
		}
	}
	return errors.Join(problems...)
}

// widerRights finds the cluster-admin binding of an earlier addition of the
// whole cluster. A user who may not read it counts as not having found it.
func (a *clusterAddition) widerRights(ctx context.Context) (accessObject, bool, error) {
	// The second object for the whole cluster is the binding.
	wide := accessObjects(a.systemNamespace, nil)[1]
	_, err := wide.in(a.cluster).Get(ctx, wide.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return wide, false, nil
	}
	return wide, err == nil, err
}

// noWiderRights refuses scoped rights beside cluster-admin, which would stay in
// force. With --replace narrow removes the binding afterwards.
func (a *clusterAddition) noWiderRights(ctx context.Context) error {
	if len(a.namespaces) == 0 || a.replace {
		return nil
	}
	wide, there, err := a.widerRights(ctx)
	if err != nil {
		return fmt.Errorf("look for the %s: %w", wide, err)
	}
	if there {
		return fmt.Errorf("the service account has all rights by the %s: delete it first, or use --replace", wide)
	}
	return nil
}

// narrow deletes the cluster-admin binding after scoped rights were granted. In
// the other order the runtime would be without rights in between, and its
// Applications would turn to errors.
func (a *clusterAddition) narrow(ctx context.Context) error {
	wide, there, err := a.widerRights(ctx)
	if err != nil || !there {
		return err
	}
	return deleteAccess(a.command, a.cluster, []accessObject{wide})
}

// add grants access and gives the token to the runtime. If a step fails,
// everything before it is undone, and the errors of the undo are joined to the
// cause.
func (a *clusterAddition) add(ctx context.Context, request *runtimev1.AddClusterRequest, objects []accessObject) (added *runtimev1.ManagedCluster, err error) {
	undo, err := grantAccess(ctx, a.cluster, objects)
	defer func() {
		if err != nil {
			err = errors.Join(err, undoAccess(ctx, undo))
		}
	}()
	if err != nil {
		return nil, err
	}
	token, err := a.token(ctx)
	if err != nil {
		return nil, err
	}
	request.Token = token.Reveal()
	response, err := a.platform.Clusters(a.runtime).AddCluster(ctx, connect.NewRequest(request))
	if err != nil {
		// Before the undo, which the defer runs: the runtime must not keep a
		// cluster whose service account is gone.
		a.forget(ctx, request, err)
		return nil, a.platform.Explain(ctx, err)
	}
	return response.Msg.GetCluster(), nil
}

// forget removes the cluster from the runtime if a lost response leaves open
// whether it was added. Best effort: an error here is dropped, because the
// error of the addition is the one to report.
func (a *clusterAddition) forget(ctx context.Context, request *runtimev1.AddClusterRequest, failure error) {
	lost := !connect.IsWireError(failure)
	switch connect.CodeOf(failure) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		lost = true
	}
	// A replaced cluster must stay: it was there before.
	if !lost || a.replace {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	there, err := a.platform.FindCluster(ctx, a.runtime, request.GetName(), "")
	if err == nil && there.GetServer() == request.GetServer() {
		_, _ = apiclient.Call(ctx, a.platform, a.platform.Clusters(a.runtime).RemoveCluster, &runtimev1.RemoveClusterRequest{Name: request.GetName(), Force: true})
	}
}

// token requests a token of the service account (TokenRequest). The API server
// may shorten the lifetime; the runtime reads the expiry from the token.
func (a *clusterAddition) token(ctx context.Context) (secret.Text, error) {
	seconds := int64(firstTokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	made, err := a.cluster.Client.CoreV1().ServiceAccounts(a.systemNamespace).CreateToken(ctx, managerAccount, request, metav1.CreateOptions{})
	if err != nil {
		return secret.Text{}, fmt.Errorf("request a token for %s/%s from the cluster: %w", a.systemNamespace, managerAccount, err)
	}
	return secret.New(made.Status.Token), nil
}
