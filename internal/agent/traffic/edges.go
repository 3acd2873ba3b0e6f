package traffic

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe/sharedtls"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

const (
	// EdgeSelector selects the Pods of edges.
	EdgeSelector = "app.kubernetes.io/part-of=slipway,app.kubernetes.io/component=edge"
	// maxEdges bounds the edges that are polled.
	maxEdges = 64
	// discoveryAge is how long the list of Pods, and the secret, are cached.
	discoveryAge = 10 * time.Second
	// maxResponseBytes bounds a response of an edge.
	maxResponseBytes = 32 << 20
)

// edgeAddress is the name and the address of an edge.
type edgeAddress struct{ name, address string }

// edgeFinder discovers the edges and authenticates to them. One goroutine uses
// it.
type edgeFinder struct {
	// cluster and namespace are where Pods are listed. fixed addresses replace
	// that.
	cluster   *kube.Cluster
	namespace string
	fixed     []string
	port      int
	secret    Secret

	// found is cached until discoveryAge after foundAt.
	foundAt time.Time
	found   []edgeAddress

	// client was created with the secret whose hash is keyed.
	keyedAt time.Time
	keyed   [sha256.Size]byte
	client  *http.Client
}

// edges returns the current edges, by name. With an error it returns the cached
// ones.
func (f *edgeFinder) edges(ctx context.Context, now time.Time) ([]edgeAddress, error) {
	// Fixed addresses are for edges outside of the cluster, and for tests.
	if len(f.fixed) > 0 {
		places := make([]edgeAddress, len(f.fixed))
		for i, address := range f.fixed {
			places[i] = edgeAddress{name: address, address: address}
		}
		return places, nil
	}
	if !f.foundAt.IsZero() && now.Sub(f.foundAt) < discoveryAge {
		return f.found, nil
	}
	pods, err := f.cluster.Client.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: EdgeSelector, Limit: maxEdges})
	if err != nil {
		return f.found, fmt.Errorf("the Pods of edges cannot be listed: %w", err)
	}
	f.foundAt, f.found = now, nil
	for i := range pods.Items {
		pod := &pods.Items[i]
		// Pods that are starting or ended do not listen.
		if pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		f.found = append(f.found, edgeAddress{name: pod.Name, address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(f.port))})
	}
	slices.SortFunc(f.found, func(a, b edgeAddress) int { return strings.Compare(a.name, b.name) })
	return f.found, nil
}

// authenticatedClient returns the client whose certificate the edges accept. It
// is replaced when the shared secret changes.
func (f *edgeFinder) authenticatedClient(ctx context.Context, now time.Time) (*http.Client, error) {
	if f.client != nil && now.Sub(f.keyedAt) < discoveryAge {
		return f.client, nil
	}
	shared, err := f.secret.Read(ctx)
	if err != nil {
		if f.client != nil {
			return f.client, nil // the one that was good a moment ago
		}
		return nil, err
	}
	// The time is set even if the secret is unchanged, so that it is not read
	// with every poll.
	f.keyedAt = now
	if sum := sha256.Sum256(shared); f.client == nil || sum != f.keyed {
		config, err := sharedtls.Client(shared, trafficreport.Purpose)
		if err != nil {
			return nil, err
		}
		f.close()
		f.keyed, f.client = sum, newClient(config)
	}
	return f.client, nil
}

// newClient returns a client without proxies and redirects: the edges are in
// the cluster.
func newClient(config *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: config, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			TLSHandshakeTimeout: 2 * time.Second, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// close closes idle connections.
func (f *edgeFinder) close() {
	if f.client != nil {
		f.client.CloseIdleConnections()
	}
}

// edgeError is an error response of an edge.
type edgeError struct {
	status  int
	message string
}

// Error implements error.
func (e *edgeError) Error() string { return e.message }

// fetchPage requests one page of an edge and decodes it.
func fetchPage(ctx context.Context, client *http.Client, target *url.URL, decode func([]byte) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return edgeProblem(err)
	}
	defer response.Body.Close()
	// One byte more than the limit, to detect a longer response.
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("its response broke off: %w", err)
	case len(text) > maxResponseBytes:
		return fmt.Errorf("its response has more than %d MiB", maxResponseBytes>>20)
	case response.StatusCode != http.StatusOK:
		return &edgeError{status: response.StatusCode, message: failureText(response.StatusCode, text)}
	}
	if err := decode(text); err != nil {
		return fmt.Errorf("its report cannot be decoded, it may be of another version: %w", err)
	}
	return nil
}

// edgeProblem explains why an edge cannot be reached, without the URL.
func edgeProblem(err error) error {
	// The URL contains the address of a Pod, which means nothing to users.
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var alert tls.AlertError
	var operation *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("it does not respond in time")
	case errors.As(err, &alert), strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "same secret"):
		return errors.New("it does not have the agent's secret: it may not have been mounted yet; see traffic.secretFile of the edge")
	case errors.As(err, &operation) && operation.Op == "dial":
		return fmt.Errorf("it cannot be reached: %w: see traffic.address of the edge, and network policies", operation.Err)
	}
	return fmt.Errorf("it cannot be polled: %w", err)
}
