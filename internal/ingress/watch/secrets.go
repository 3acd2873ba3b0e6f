package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The reads at the start of the edge dominate: a cluster may have thousands of TLS
// Secrets, and the rate limit of the client still applies.
const (
	secretReaders = 16
	secretLimit   = 1 << 20
	// helmRelease is the type of the Secrets that Helm keeps its releases in.
	// They are large and many.
	helmRelease = "helm.sh/release.v1"
)

// secretReader reads the wanted Secrets by name. A wanted Secret is read until that
// succeeds or fails for good, and again when its metadata changed. Its events go
// into the part of the queue where the newest one wins.
type secretReader struct {
	watcher *Watcher

	mu sync.Mutex
	// work has the names to read; nil before run. A work queue gives a name to
	// one reader at a time.
	work   workqueue.TypedDelayingInterface[name]
	wanted map[name]*wantedSecret
	// unwatched are the namespaces where Secrets may not be watched. Wanted ones
	// are polled there.
	unwatched map[string]bool
}

// wantedSecret is the state of a wanted Secret.
type wantedSecret struct {
	// version is the resource version of the published data.
	version string
	// failure is the fault that was published in the place of data.
	failure *refusal.Refusal
	// published is set while the Snapshot has the Secret, or it is queued.
	published bool
	// delivered is set once Next has returned the first result.
	delivered bool
	// failed counts failed reads in a row.
	failed int
}

// newSecretReader returns a reader without wanted Secrets.
func newSecretReader(w *Watcher) *secretReader {
	return &secretReader{watcher: w, wanted: map[name]*wantedSecret{}, unwatched: map[string]bool{}}
}

// run reads wanted Secrets until the context is done.
func (k *secretReader) run(ctx context.Context) {
	work := workqueue.NewTypedDelayingQueue[name]()
	var readers sync.WaitGroup
	defer readers.Wait()
	defer work.ShutDown()
	for range secretReaders {
		readers.Go(func() {
			for {
				at, stopped := work.Get()
				if stopped {
					return
				}
				k.read(ctx, at)
				work.Done(at)
			}
		})
	}
	k.begin(work)
	for backoff.Sleep(ctx, backoff.Jitter(k.watcher.timing.deniedRetry, 0.3)) == nil {
		k.readUnwatched()
	}
}

// begin queues the Secrets that were wanted before run.
func (k *secretReader) begin(work workqueue.TypedDelayingInterface[name]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.work = work
	for at := range k.wanted {
		work.Add(at)
	}
}

// want queues a Secret for reading. It never blocks.
func (k *secretReader) want(at name) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, already := k.wanted[at]; !already {
		k.wanted[at] = &wantedSecret{}
		k.readSoon(at)
	}
}

// unwant drops a Secret, with an event if it was published. It never blocks.
func (k *secretReader) unwant(at name) {
	k.mu.Lock()
	defer k.mu.Unlock()
	secret := k.wanted[at]
	if secret == nil {
		return
	}
	delete(k.wanted, at)
	k.watcher.failures.note(secretResource, attempt{at.namespace, "get " + at.own}, nil)
	if secret.published {
		k.watcher.queue.set(refOf(at), item{event: Event{Delete: refOf(at), At: time.Now()}})
	}
}

// readSoon queues a Secret for reading. Before run there is no queue: begin adds
// all wanted Secrets. The caller holds mu.
func (k *secretReader) readSoon(at name) {
	if k.work != nil {
		k.work.Add(at)
	}
}

// allDelivered reports whether Next has returned a result for every wanted Secret.
func (k *secretReader) allDelivered() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, secret := range k.wanted {
		if !secret.delivered {
			return false
		}
	}
	return true
}

// read reads one Secret and publishes the result if it changed.
func (k *secretReader) read(ctx context.Context, at name) {
	k.mu.Lock()
	secret := k.wanted[at]
	k.mu.Unlock()
	if secret == nil || ctx.Err() != nil {
		return
	}
	body, err := k.get(ctx, at)
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wanted[at] != secret {
		return // unwanted meanwhile; if wanted again it is queued
	}
	failure := err
	if apierrors.IsNotFound(err) {
		failure = nil
	}
	k.watcher.failures.note(secretResource, attempt{at.namespace, "get " + at.own}, failure)
	switch {
	case err == nil:
		secret.failed = 0
		k.publish(at, secret, body)
	case apierrors.IsNotFound(err):
		secret.failed = 0
		k.drop(at, secret)
	default:
		secret.failed++
		if fault := secret.faultOf(at, err); fault != nil {
			k.publish(at, secret, &snapshot.SecretBody{Namespace: at.namespace, Name: at.own, Failure: fault})
		}
		k.work.AddAfter(at, k.watcher.timing.retryDelay(secret.failed, err))
	}
}

// get reads a Secret. An invalid name is not found, without a request: names come
// from Ingresses, and must not become parts of a URL unchecked.
func (k *secretReader) get(ctx context.Context, at name) (*snapshot.SecretBody, error) {
	if len(validation.IsDNS1123Label(at.namespace)) > 0 || len(validation.IsDNS1123Subdomain(at.own)) > 0 {
		return nil, apierrors.NewNotFound(corev1.Resource(secretResource), at.own)
	}
	body := &snapshot.SecretBody{Namespace: at.namespace, Name: at.own}
	if !k.watcher.reads(at.namespace) {
		body.Failure = refusal.New("", refusal.Unreadable,
			"the Secret %s/%s is not read: add %[1]s to providers.kubernetesIngress.namespaces", at.namespace, at.own)
		return body, nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.watcher.timing.requestTimeout)
	defer cancel()
	secret, err := k.watcher.cluster.Client.CoreV1().Secrets(at.namespace).Get(ctx, at.own, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	body.UID, body.Type, body.Version = secret.UID, string(secret.Type), secret.ResourceVersion
	if body.Failure = unusable(secret); body.Failure == nil {
		body.Data = secret.Data
	}
	return body, nil
}

// unusable returns why a Secret is not published, or nil.
func unusable(secret *corev1.Secret) *refusal.Refusal {
	size := 0
	for _, value := range secret.Data {
		size += len(value)
	}
	switch {
	case secret.Type == helmRelease:
		return refusal.New("", refusal.Invalid,
			"the Secret %s/%s is a release of Helm: name another one", secret.Namespace, secret.Name)
	case size > secretLimit:
		return refusal.New("", refusal.TooLarge,
			"the Secret %s/%s has more than %d bytes of data", secret.Namespace, secret.Name, secretLimit)
	}
	return nil
}

// faultOf returns the fault to publish for an error; nil for none yet. An API
// server that starts denies rights that we have, so published data is not dropped
// at the first denial. Other errors must not block readiness for ever, but never
// replace published data.
func (s *wantedSecret) faultOf(at name, err error) *refusal.Refusal {
	good := s.published && s.failure == nil
	switch {
	case apierrors.IsForbidden(err):
		if good && s.failed < denialsBelieved {
			return nil
		}
		return refusal.New("", refusal.Unreadable,
			"the edge may not read the Secret %s/%s: allow its role to get it", at.namespace, at.own)
	case !good && s.failed >= denialsBelieved && isBroken(err):
		return refusal.New("", refusal.Unreadable,
			"the API server cannot read the Secret %s/%s: %v", at.namespace, at.own, err)
	}
	return nil
}

// isBroken reports whether the API server is there and fails for this object,
// such as a Secret that it cannot decrypt.
func isBroken(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err) && !apierrors.IsUnauthorized(err)
}

// retryDelay returns the backoff after so many failures in a row. A denial that
// lasts is retried rarely: RBAC rules change by hand.
func (p timing) retryDelay(failed int, err error) time.Duration {
	if apierrors.IsForbidden(err) && failed >= denialsBelieved {
		return backoff.Jitter(p.deniedRetry, 0.3)
	}
	return p.backoff().Delay(failed)
}

// publish queues a body, unless it equals the published one. The caller holds mu.
func (k *secretReader) publish(at name, secret *wantedSecret, body *snapshot.SecretBody) {
	if secret.published && secret.version == body.Version && sameFault(secret.failure, body.Failure) {
		return
	}
	secret.published, secret.version, secret.failure = true, body.Version, body.Failure
	k.watcher.queue.set(refOf(at), item{event: Event{Put: body, At: time.Now()}, delivered: func() { k.markDelivered(secret) }})
}

// drop queues the deletion of a Secret that does not exist, or a silent item if it
// was never published: Synced waits for either. The caller holds mu.
func (k *secretReader) drop(at name, secret *wantedSecret) {
	news := item{silent: true, delivered: func() { k.markDelivered(secret) }}
	if secret.published {
		news.silent = false
		news.event = Event{Delete: refOf(at), At: time.Now()}
	} else if secret.delivered {
		return
	}
	secret.published, secret.version, secret.failure = false, "", nil
	k.watcher.queue.set(refOf(at), news)
}

// markDelivered is called by Next, on the goroutine of the Snapshot.
func (k *secretReader) markDelivered(secret *wantedSecret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	secret.delivered = true
}

// refOf returns the reference of a Secret.
func refOf(at name) snapshot.Ref {
	return snapshot.Ref{Kind: snapshot.Secret, Namespace: at.namespace, Name: at.own}
}

// sameFault reports whether two faults are equal, or both are nil.
func sameFault(a, b *refusal.Refusal) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
