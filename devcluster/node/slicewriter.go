package node

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// sliceWriter is the EndpointSlice controller of host mode: for each Service it
// compares the desired slices with the existing ones, and writes the
// difference. It touches only slices that carry its own managed-by label.
type sliceWriter struct {
	host *shared
	pods *podSet
	// queue holds the Services to reconcile. It merges events for the same
	// Service, and delays retries with exponential backoff.
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	// Two factories, because the label selector applies to all informers of
	// one.
	serviceFactory, sliceFactory informers.SharedInformerFactory
	services                     corelisters.ServiceLister
	slices                       discoverylisters.EndpointSliceLister
}

// newSliceWriter returns a writer whose informers are not started. Requesting
// the listers here registers the informers with their factories.
func newSliceWriter(host *shared, pods *podSet) *sliceWriter {
	w := &sliceWriter{host: host, pods: pods}
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	w.serviceFactory = informers.NewSharedInformerFactory(host.client, 0)
	w.sliceFactory = informers.NewSharedInformerFactoryWithOptions(host.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = labels.Set{discoveryv1.LabelManagedBy: componentName}.String()
		}))
	w.services = w.serviceFactory.Core().V1().Services().Lister()
	w.slices = w.sliceFactory.Discovery().V1().EndpointSlices().Lister()
	return w
}

// podsChanged enqueues all Services of a namespace, because a Pod's labels may
// have changed and with them the Services that select it. Before run has
// started the informers the list is empty; their first events then enqueue
// every Service.
func (w *sliceWriter) podsChanged(namespace string) {
	services, err := w.services.Services(namespace).List(labels.Everything())
	if err != nil {
		return // unreachable: a lister reads the cache, and this selector is valid
	}
	for _, service := range services {
		w.queue.Add(types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
	}
}

// run reconciles slices until ctx is done; it calls ready once the caches have
// synced. One worker is enough: a development cluster has few Services.
func (w *sliceWriter) run(ctx context.Context, ready func()) {
	serviceEvents, err := w.serviceFactory.Core().V1().Services().Informer().AddEventHandler(w.handler(func(obj any) (types.NamespacedName, bool) {
		service, ok := obj.(*corev1.Service)
		if !ok {
			return types.NamespacedName{}, false
		}
		return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, true
	}))
	if err != nil {
		panic(err) // only a stopped informer refuses a handler
	}
	// Slices are watched too: a slice that was edited or deleted by hand is
	// restored.
	sliceEvents, err := w.sliceFactory.Discovery().V1().EndpointSlices().Informer().AddEventHandler(w.handler(func(obj any) (types.NamespacedName, bool) {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			return types.NamespacedName{}, false
		}
		return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}, true
	}))
	if err != nil {
		panic(err)
	}
	w.serviceFactory.StartWithContext(ctx)
	defer w.serviceFactory.Shutdown()
	w.sliceFactory.StartWithContext(ctx)
	defer w.sliceFactory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), serviceEvents.HasSynced, sliceEvents.HasSynced) {
		return
	}
	// Deferred calls run in reverse: the queue shuts down, the worker ends,
	// then the informers stop.
	var writing sync.WaitGroup
	defer writing.Wait()
	defer w.queue.ShutDown()
	writing.Go(func() {
		for w.next(ctx) {
		}
	})
	ready()
	<-ctx.Done()
}

// handler returns an event handler that enqueues the Service of each object. A
// missed delete event carries the last cached object.
func (w *sliceWriter) handler(key func(any) (types.NamespacedName, bool)) cache.ResourceEventHandlerFuncs {
	add := func(obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if k, ok := key(obj); ok {
			w.queue.Add(k)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}
}

// next reconciles one Service from the queue; it returns false when the queue
// is shut down.
func (w *sliceWriter) next(ctx context.Context) bool {
	key, quit := w.queue.Get()
	if quit {
		return false
	}
	defer w.queue.Done(key)
	if err := w.reconcile(ctx, key); err != nil {
		// A conflict only means that the cache is behind; the retry reads the
		// newer slice, so it is not logged.
		if ctx.Err() == nil && !apierrors.IsConflict(err) {
			w.host.cfg.Log.Warn("cannot write endpoint slices; trying again", "service", key, "error", err)
		}
		w.queue.AddRateLimited(key)
		return true
	}
	w.queue.Forget(key)
	return true
}

// reconcile creates, updates and deletes the slices of one Service. A Service
// that is gone should have none. It stops at the first error; the retry
// continues, because every step is idempotent.
func (w *sliceWriter) reconcile(ctx context.Context, key types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	desired := map[string]*discoveryv1.EndpointSlice{}
	service, err := w.services.Services(key.Namespace).Get(key.Name)
	if err == nil {
		list := desiredSlices(service, w.pods.views(key.Namespace))
		for i := range list {
			desired[list[i].Name] = &list[i]
		}
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	existing, err := w.slices.EndpointSlices(key.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: key.Name}))
	if err != nil {
		return err
	}
	client := w.host.client.DiscoveryV1().EndpointSlices(key.Namespace)
	for _, slice := range existing {
		want := desired[slice.Name]
		delete(desired, slice.Name)
		var err error
		switch {
		// The address type is immutable: the slice is deleted here, and its
		// delete event causes the reconcile that creates it again.
		case want == nil || want.AddressType != slice.AddressType:
			err = client.Delete(ctx, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
		case !sameSlice(slice, want):
			changed := slice.DeepCopy()
			changed.Labels, changed.OwnerReferences = want.Labels, want.OwnerReferences
			changed.Endpoints, changed.Ports = want.Endpoints, want.Ports
			_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("slice %s: %w", slice.Name, err)
		}
	}
	// Only slices that do not exist are left in the map. One that the cache
	// does not show yet already exists at the API server; its add event
	// enqueues the Service again.
	for _, slice := range desired {
		if _, err := client.Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("slice %s: %w", slice.Name, err)
		}
	}
	return nil
}

// sameSlice compares the parts of a slice that the writer owns.
func sameSlice(a, b *discoveryv1.EndpointSlice) bool {
	return equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints) && equality.Semantic.DeepEqual(a.Ports, b.Ports)
}
