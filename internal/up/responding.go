package up

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
)

const (
	// pollInterval is the poll interval of all waits, and pollTimeout
	// bounds one request.
	pollInterval = 250 * time.Millisecond
	pollTimeout  = 2 * time.Second
	// responseLimit bounds a response.
	responseLimit = 4 << 10
)

// awaitResponses waits until as many Pods respond at the addresses of the
// Service's EndpointSlices as there are replicas. The status alone is not
// enough: after a restart it still describes the Pods of the run before.
func (d *demoStatus) awaitResponses(ctx context.Context, cluster *kube.Cluster, report func(string)) error {
	// A demo that is scaled to zero has no Pods to wait for.
	if d.desired == 0 {
		return nil
	}
	for {
		endpoints, err := readyEndpoints(ctx, cluster)
		if err != nil {
			return err
		}
		responding := respondingOf(ctx, endpoints)
		if len(responding) >= d.desired {
			d.address = responding[0]
			return nil
		}
		report(fmt.Sprintf("%d of %d Pods respond", len(responding), d.desired))
		if backoff.Sleep(ctx, pollInterval) != nil {
			return context.Cause(ctx)
		}
	}
}

// findResponding looks once for a Pod that responds, for a demo that need not be
// complete.
func (d *demoStatus) findResponding(ctx context.Context, cluster *kube.Cluster) {
	endpoints, err := readyEndpoints(ctx, cluster)
	if err != nil {
		return
	}
	if responding := respondingOf(ctx, endpoints); len(responding) > 0 {
		d.address = responding[0]
	}
}

// respondingOf returns the endpoints that respond.
func respondingOf(ctx context.Context, endpoints []string) []string {
	return slices.DeleteFunc(slices.Clone(endpoints), func(endpoint string) bool { return !responds(ctx, endpoint) })
}

// readyEndpoints returns host:port of each ready endpoint of the Service,
// sorted.
func readyEndpoints(ctx context.Context, cluster *kube.Cluster) ([]string, error) {
	list, err := cluster.Client.DiscoveryV1().EndpointSlices(demoName).
		List(ctx, kube.Labelled(discoveryv1.LabelServiceName+"="+demoName))
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of the demo: %w", err)
	}
	var found []string
	for _, slice := range list.Items {
		// The Service of the demo has one port.
		if len(slice.Ports) == 0 || slice.Ports[0].Port == nil {
			continue
		}
		port := strconv.Itoa(int(*slice.Ports[0].Port))
		for _, endpoint := range slice.Endpoints {
			// The API defines a missing condition as ready.
			if ready := endpoint.Conditions.Ready; ready != nil && !*ready || len(endpoint.Addresses) == 0 {
				continue
			}
			found = append(found, net.JoinHostPort(endpoint.Addresses[0], port))
		}
	}
	// An endpoint can be in two slices for a moment while the controller moves
	// it.
	slices.Sort(found)
	return slices.Compact(found), nil
}

// responds reports whether an HTTP server responds without a server error. Other
// statuses count, because the user may have changed the demo.
func responds(ctx context.Context, endpoint string) bool {
	status, _ := get(ctx, endpoint, "")
	return status != 0 && status < http.StatusInternalServerError
}

// get requests /readyz, with another Host if one is given, and returns status
// and text; the status is 0 without a response.
func get(ctx context.Context, endpoint, host string) (status int, text string) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+endpoint+"/readyz", nil)
	if err != nil {
		return 0, ""
	}
	request.Host = host
	// Not the default transport: that one goes through the user's proxy.
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, responseLimit))
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(body)
}
