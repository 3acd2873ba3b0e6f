package promotecmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/promotion"
)

// fieldManager is the owner of the fields that commands write.
const fieldManager = "slipway-cli"

func startCommand(a *access) *cobra.Command {
	var flow, name string
	command := &cobra.Command{
		Use:   "start PRODUCT",
		Short: "Start a promotion of what the trigger environment has",
		Long: `Creates a Promotion. The agent begins when the Application of the trigger environment is
Synced and Healthy, with the revision that it has then.`,
		Example: `  slipway promote start web -n argocd
  slipway promote start web -n argocd --flow hotfix --name web-hotfix`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s takes the name of a Product", command.CommandPath())
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			connected, err := a.open()
			if err != nil {
				return err
			}
			defer connected.Close()
			made, err := connected.start(command.Context(), args[0], flow, name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s started: slipway promote get %s -n %s shows its progress\n", printer.Printable(made), printer.Printable(made), printer.Printable(connected.namespace))
			return err
		},
	}
	command.Flags().StringVar(&flow, "flow", "", "PromotionFlow (default the first one of the Product that is for the commit)")
	command.Flags().StringVar(&name, "name", "", "name of the Promotion (default one with the time)")
	return command
}

// start creates a Promotion and returns its name.
func (c *client) start(ctx context.Context, product, flow, name string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	// A misspelt product would be a Promotion that waits for ever.
	_, err := c.Dynamic.Resource(v1beta1.ProductResource()).Namespace(c.namespace).Get(bounded, product, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("there is no Product %s in the namespace %s: kubectl get products -A shows them (%w)", product, c.namespace, err)
	}
	if err != nil {
		return "", c.explain("read Products", err)
	}
	by, err := c.user(ctx)
	if err != nil {
		return "", err
	}
	made, err := c.requests().Start(bounded, product, flow, name, by)
	if apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("there is a Promotion %s already: choose another --name (%w)", made, err)
	}
	if err != nil {
		return "", c.explain("create Promotions", err)
	}
	return made, nil
}

func approveCommand(a *access) *cobra.Command {
	return &cobra.Command{
		Use:   "approve NAME ENVIRONMENT",
		Short: "Approve a promotion to an environment",
		Long: `Records your approval, with the name by which the API server knows you. You need the
permission to patch Promotions, and the verb approve on the Environment.`,
		Example: "  slipway promote approve web-1 production -n argocd",
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%s takes the name of a Promotion and an environment: slipway promote list shows the names", command.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.complete,
		RunE: func(command *cobra.Command, args []string) error {
			connected, err := a.open()
			if err != nil {
				return err
			}
			defer connected.Close()
			by, err := connected.approve(command.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s approved for %s by %s\n", printer.Printable(args[0]), printer.Printable(args[1]), printer.Printable(by))
			return err
		},
	}
}

// approve records an approval and returns by whom.
func (c *client) approve(ctx context.Context, name, environment string) (string, error) {
	// The check comes first for a clear message.
	if err := c.mayApprove(ctx, environment); err != nil {
		return "", err
	}
	by, err := c.user(ctx)
	if err != nil {
		return "", err
	}
	return by, c.changed(name, c.requests().Approve(ctx, name, environment, by))
}

// mayApprove checks the right of the user to approve an Environment.
func (c *client) mayApprove(ctx context.Context, environment string) error {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	review, err := c.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: c.namespace, Verb: v1alpha1.VerbApprove, Group: v1alpha1.Group, Resource: v1alpha1.ResourceEnvironment, Name: environment,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return c.explain("check your permissions", err)
	}
	if !review.Status.Allowed {
		return fmt.Errorf("you may not approve promotions to %s: request the verb %s on environments.%s in the namespace %s", environment, v1alpha1.VerbApprove, v1alpha1.Group, c.namespace)
	}
	return nil
}

func abortCommand(a *access) *cobra.Command {
	return &cobra.Command{
		Use:     "abort NAME",
		Short:   "End a promotion; what was written stays",
		Example: "  slipway promote abort web-1 -n argocd",
		Args:    oneName, ValidArgsFunction: a.complete,
		RunE: func(command *cobra.Command, args []string) error {
			connected, err := a.open()
			if err != nil {
				return err
			}
			defer connected.Close()
			if err := connected.changed(args[0], connected.requests().Abort(command.Context(), args[0])); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s is going to be aborted\n", printer.Printable(args[0]))
			return err
		},
	}
}

// requests writes to the Promotions of the namespace.
func (c *client) requests() promotion.Requests {
	return promotion.Requests{Promotions: c.promotions(), Manager: fieldManager}
}

// changed explains the error of a change of a Promotion.
func (c *client) changed(name string, err error) error {
	var state *promotion.StateError
	switch {
	case err == nil, errors.As(err, &state):
		return err
	case apierrors.IsNotFound(err):
		return c.missing(name, err)
	}
	return c.explain("change Promotions", err)
}
