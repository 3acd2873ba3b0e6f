// Package promotecmd is the command slipway promote: Promotions in a cluster, with the
// user's own rights.
//
// A command creates a Promotion or changes its spec, and does not wait for the agent,
// which carries it out.
//
//	promote      flags, connection, errors for people
//	show         list and get
//	act          start, approve and abort
//
// The name of the user in a Promotion is the one by which the API server knows the
// credentials of the kubeconfig, and never one that was typed. To approve, the user
// needs the verb approve on the Environment, beside the right to patch Promotions.
package promotecmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/kube"
)

// access holds the flags of the group.
type access struct {
	choice    kube.UserChoice
	namespace string
}

// Command returns the command slipway promote.
func Command() *cobra.Command {
	a := &access{}
	command := &cobra.Command{
		Use:     "promote",
		Aliases: []string{"promotion", "promotions"},
		Short:   "Move versions through environments",
		Long: `Start, follow, approve and abort Promotions.

A Promotion moves one version of a Product through the environments of a PromotionFlow: the
agent commits it to the files of each environment, when its gates are open. Promotions are in
the control namespace of the agent. Requests go to the Kubernetes API with your own
permissions: the cluster is the one that kubectl would use.`,
	}
	flags := command.PersistentFlags()
	kubeflags.Add(flags, &a.choice)
	flags.StringVarP(&a.namespace, "namespace", "n", "", "control namespace of the agent (default that of the context)")
	command.AddCommand(listCommand(a), getCommand(a), startCommand(a), approveCommand(a), abortCommand(a))
	return command
}

// client is a connection to the Promotions of a namespace.
type client struct {
	*kube.Cluster
	namespace string
}

// open connects to the cluster. It sends nothing yet.
func (a *access) open() (*client, error) {
	cluster, err := kubeflags.Connect(a.choice)
	if err != nil {
		return nil, err
	}
	return &client{cluster, cmp.Or(a.namespace, cluster.Namespace)}, nil
}

// objects are the objects of one of our kinds.
func (c *client) objects(resource, namespace string) dynamic.ResourceInterface {
	return c.Dynamic.Resource(schema.GroupVersionResource{Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: resource}).Namespace(namespace)
}

// promotions are the Promotions of the namespace.
func (c *client) promotions() dynamic.ResourceInterface {
	return c.objects(v1alpha1.ResourcePromotion, c.namespace)
}

// entry is a Promotion and the object that it was read from. The object is what -o yaml
// prints: it has fields that this version of the program does not know.
type entry struct {
	*v1alpha1.Promotion
	object *unstructured.Unstructured
}

// newEntry reads a Promotion.
func newEntry(object *unstructured.Unstructured) (entry, error) {
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	text, err := object.MarshalJSON()
	made := &v1alpha1.Promotion{}
	if err == nil {
		err = json.Unmarshal(text, made)
	}
	return entry{made, object}, err
}

// get reads a Promotion by its name.
func (c *client) get(ctx context.Context, name string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	object, err := c.promotions().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return entry{}, c.missing(name, err)
	}
	if err != nil {
		return entry{}, c.explain("read Promotions", err)
	}
	return newEntry(object)
}

// missing is the error of a Promotion that does not exist.
func (c *client) missing(name string, err error) error {
	return fmt.Errorf("there is no Promotion %s in the namespace %s: see slipway promote list -A (%w)", name, c.namespace, err)
}

// list reads the Promotions of the namespace, or of all.
func (c *client) list(ctx context.Context, all bool) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	namespace := c.namespace
	if all {
		namespace = metav1.NamespaceAll
	}
	found, err := c.objects(v1alpha1.ResourcePromotion, namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.explain("list Promotions", err)
	}
	entries := make([]entry, 0, len(found.Items))
	for i := range found.Items {
		one, err := newEntry(&found.Items[i])
		if err != nil {
			return nil, err
		}
		entries = append(entries, one)
	}
	return entries, nil
}

// user is the name by which the API server knows the user.
func (c *client) user(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	review, err := c.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", c.explain("read your user name", err)
	}
	return review.Status.UserInfo.Username, nil
}

// explain turns an error of a request into one that names the next step for the user.
func (c *client) explain(what string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster has no Promotions: install their definitions with slipway crds upgrade, or choose another --context (%w)", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s: request that permission on promotions.slipway.dev (%w)", what, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not accept your credentials: renew the credentials of the kubeconfig, or choose another context", c.Config.Host)
	case utilnet.IsConnectionRefused(err), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s does not respond: is the cluster up, and is it the right --kubeconfig and --context? (%w)", c.Config.Host, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// oneName is the argument check of commands for one Promotion.
func oneName(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of a Promotion: slipway promote list shows them", command.CommandPath())
	}
	return nil
}

// complete offers the names of Promotions to a shell. It never fails: a completion
// without a cluster offers nothing.
func (a *access) complete(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	connected, err := a.open()
	if err != nil || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer connected.Close()
	found, _ := connected.list(command.Context(), false)
	var names []string
	for _, one := range found {
		if len(args) == 0 {
			names = append(names, one.Name)
		} else if one.Name == args[0] {
			for _, step := range one.Status.Steps {
				names = append(names, step.Environment)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
