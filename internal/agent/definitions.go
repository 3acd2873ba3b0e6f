package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// definitionsInterval is how often discovery is repeated while kinds are
// missing.
const definitionsInterval = 2 * time.Second

// installDefinitions is the advice of how to install them.
const installDefinitions = "install them with kubectl apply --server-side -f charts/gitops-runtime/crds/"

// awaitDefinitions waits until the API server serves Applications, AppProjects
// and ApplicationSets. It logs what is missing once, and again when that
// changes. A watch of a kind that is not served would fail in a loop.
func (a *agent) awaitDefinitions(ctx context.Context) error {
	text := ""
	for {
		err := a.missingDefinitions(ctx)
		if err == nil {
			a.readiness.definitions.Met()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.readiness.definitions.Unmet(err.Error())
		// The text of an error can contain a request id or a time, so that its
		// kind is compared.
		if kind := kube.FailureKind(err); kind != text {
			text = kind
			a.log.Error("waiting for CustomResourceDefinitions", observe.KeyReason, err.Error())
		}
		if backoff.Sleep(ctx, definitionsInterval) != nil {
			return ctx.Err()
		}
	}
}

// missingDefinitions returns an error that lists the kinds that the API server
// does not serve.
func (a *agent) missingDefinitions(ctx context.Context) error {
	// NotFound means that the whole group is missing.
	served, err := discovery.ToDiscoveryInterfaceWithContext(a.options.Cluster.Client.Discovery()).ServerResourcesForGroupVersionWithContext(ctx, v1alpha1.APIVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list the kinds of %s at the API server: %w", v1alpha1.APIVersion, err)
	}
	var missing []string
	for _, kind := range v1alpha1.Kinds() {
		known := served != nil && slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Plural })
		if !known {
			missing = append(missing, kind.Plural+"."+v1alpha1.Group)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("the cluster does not know " + strings.Join(missing, ", ") + ": " + installDefinitions)
}
