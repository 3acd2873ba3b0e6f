package promotion

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/internal/gitops/feed"
)

// followAll watches everything that promotions are made of, and returns when all of it was
// listed: before that, something that exists would seem to be missing. Without a Product or
// a Promotion it waits for one.
func (c *Controller) followAll(ctx context.Context, running *sync.WaitGroup) error {
	watches := watches{Controller: c, running: running}
	watches.followCatalog(ctx)
	watches.listed = append(watches.listed, c.needed)
	if err := watches.await(ctx); err != nil {
		return err
	}
	watches.followApplications(ctx)
	return watches.await(ctx)
}

// watches are the watches of a Controller, which end with the context.
type watches struct {
	*Controller
	running *sync.WaitGroup
	listed  []<-chan struct{}
}

// follow starts a watch.
func (w *watches) follow(ctx context.Context, resource schema.GroupVersionResource, namespace string, put func(*unstructured.Unstructured), gone func(types.NamespacedName)) {
	one := feed.New(feed.Options{
		Resource: resource, Namespace: namespace, Put: put, Log: w.options.Log,
		Gone: func(name types.NamespacedName, _ types.UID) { gone(name) },
	})
	w.listed = append(w.listed, one.Listed())
	w.running.Go(func() { one.Follow(ctx, w.options.Cluster) })
}

// await waits until everything was listed that is watched.
func (w *watches) await(ctx context.Context) error {
	for _, one := range w.listed {
		select {
		case <-one:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// followApplications watches the Applications.
func (w *watches) followApplications(ctx context.Context) {
	namespaces := slices.Compact(slices.Sorted(slices.Values(w.options.Namespaces)))
	if slices.Contains(namespaces, "*") {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		w.follow(ctx, v1alpha1.ApplicationResource(), namespace, w.putApplication, w.goneApplication)
	}
}

// followCatalog watches the rest.
func (w *watches) followCatalog(ctx context.Context) {
	c := w.Controller
	watch := func(resource schema.GroupVersionResource, namespace string, put func(*unstructured.Unstructured), gone func(types.NamespacedName)) {
		w.follow(ctx, resource, namespace, put, gone)
	}
	// Everything about promotions is in the control namespace: who may write there decides
	// what is promoted, as it decides about AppProjects.
	control := c.options.ControlNamespace
	putProduct := putParsed(c, &c.catalog.products, v1beta1.DecodeProduct)
	goneProduct := goneFrom(c, &c.catalog.products)
	watch(v1beta1.ProductResource(), control, func(object *unstructured.Unstructured) {
		c.need()
		putProduct(object)
		c.putStart(object.GetName())
	}, func(name types.NamespacedName) {
		goneProduct(name)
		c.putStart(name.Name)
	})
	watch(v1beta1.FlowResource(), control, putParsed(c, &c.catalog.flows, v1beta1.DecodeFlow), goneFrom(c, &c.catalog.flows))
	watch(v1beta1.PolicyResource(), control, putParsed(c, &c.catalog.policies, v1beta1.DecodePolicy), goneFrom(c, &c.catalog.policies))
	watch(v1beta1.TemplateResource(), control, putParsed(c, &c.catalog.templates, v1beta1.DecodeTemplate), goneFrom(c, &c.catalog.templates))
	watch(environmentResource(), control, c.putEnvironment, goneFrom(c, &c.catalog.environments))
	watch(promotionResource(), control, c.putPromotion, c.gonePromotion)
}
