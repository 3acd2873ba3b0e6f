package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// eagerFirst is the wait before the first extra check of a container that has
// not succeeded yet; it doubles after each.
const eagerFirst = 100 * time.Millisecond

// probeBodyLimit bounds the part of a response that is read; the kubelet's
// limit is the same.
const probeBodyLimit = 10 << 10

// streak counts consecutive results of a probe against its thresholds.
type streak struct {
	success, failure int32 // thresholds
	good, bad        int32 // checks of the same result in a row
}

// newStreak returns a counter with the thresholds of the probe, or the API's
// defaults of 1 and 3.
func newStreak(p *corev1.Probe) *streak {
	return &streak{success: max(p.SuccessThreshold, 1), failure: orDefault(p.FailureThreshold, 3)}
}

// add counts one check. passed and failed are true only for the check that
// reaches the threshold, not for those that follow it.
func (s *streak) add(ok bool) (passed, failed bool) {
	if ok {
		s.good, s.bad = s.good+1, 0
		return s.good == s.success, false
	}
	s.good, s.bad = 0, s.bad+1
	return false, s.bad == s.failure
}

// orDefault returns value, or the API's default for a value that is not set.
func orDefault(value, otherwise int32) int32 {
	if value <= 0 {
		return otherwise
	}
	return value
}

// probing is one probe of a running container.
type probing struct {
	spec  *corev1.Probe
	check func(context.Context) error
	// eager probes check more often than the period until the first success, so
	// that a container becomes ready when it is, not at the next tick. The
	// extra checks cannot fail the probe.
	eager bool
}

// watch checks until ctx is done or report returns false. It calls report each
// time a threshold is reached: with nil for success, and with the last error
// for failure.
func (p *probing) watch(ctx context.Context, report func(error) bool) {
	if !pause(ctx, time.Duration(p.spec.InitialDelaySeconds)*time.Second) {
		return
	}
	period := time.Duration(orDefault(p.spec.PeriodSeconds, 10)) * time.Second
	timeout := time.Duration(orDefault(p.spec.TimeoutSeconds, 1)) * time.Second
	counted := newStreak(p.spec)
	// With a higher threshold, extra checks would reach it sooner than the
	// period allows.
	eager := p.eager && counted.success == 1
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		err := p.once(ctx, timeout)
		// A check that ctx cut short is no failure of the container.
		if ctx.Err() != nil {
			return
		}
		passed, failed := counted.add(err == nil)
		if (passed || failed) && !report(err) {
			return
		}
		if err == nil {
			eager = false
		}
		if eager && p.lookEagerly(ctx, tick.C, timeout) {
			eager = false
			if passed, _ := counted.add(true); passed && !report(nil) {
				return
			}
		} else if eager {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lookEagerly checks until one check succeeds, the next tick comes or ctx is
// done, with a growing wait. It returns true for a success. The tick is
// consumed: the caller then makes the regular check at once.
func (p *probing) lookEagerly(ctx context.Context, tick <-chan time.Time, timeout time.Duration) bool {
	for wait := eagerFirst; ; wait *= 2 {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-tick:
			timer.Stop()
			return false
		case <-timer.C:
		}
		if p.once(ctx, timeout) == nil {
			return true
		}
	}
}

// once runs one check within the probe's timeout.
func (p *probing) once(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.check(ctx)
}

// checkFor returns the check of a probe. Ports are resolved in the Pod's own
// port map, so a check reaches only the Pod itself.
func checkFor(p *corev1.Probe, container string, ports portMap) func(context.Context) error {
	switch {
	case p.HTTPGet != nil:
		return func(ctx context.Context) error { return getHTTP(ctx, p.HTTPGet, container, ports) }
	case p.TCPSocket != nil:
		return func(ctx context.Context) error {
			real, found := ports.forProbe(container, p.TCPSocket.Port)
			if !found {
				return undeclared(p.TCPSocket.Port.String())
			}
			return dialTCP(ctx, netip.AddrPortFrom(ports.addr, real))
		}
	}
	// Every other kind is refused before the container starts.
	return func(context.Context) error { return errors.New("the probe has no httpGet and no tcpSocket") }
}

// undeclared is the error of a probe whose port does not exist in the Pod.
func undeclared(port string) error {
	return fmt.Errorf("no container of the Pod declares port %s; add it to the container's ports", port)
}

// dialTCP succeeds when a connection is established; no data is sent.
func dialTCP(ctx context.Context, to netip.AddrPort) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// getHTTP sends one GET request to the container; a status from 200 to 399 is a
// success. Redirects count as a response and are not followed: they could lead
// to another host.
func getHTTP(ctx context.Context, action *corev1.HTTPGetAction, container string, ports portMap) error {
	real, found := ports.forProbe(container, action.Port)
	if !found {
		return undeclared(action.Port.String())
	}
	target, err := url.Parse("/" + strings.TrimPrefix(action.Path, "/"))
	if err != nil {
		return fmt.Errorf("path %q: %w", action.Path, err)
	}
	target.Scheme = "http"
	if action.Scheme == corev1.URISchemeHTTPS {
		target.Scheme = "https"
	}
	target.Host = netip.AddrPortFrom(ports.addr, real).String()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	// The container's own headers follow, and may override these two.
	request.Header.Set("User-Agent", "kube-probe/slipway")
	request.Header.Set("Accept", "*/*")
	for _, h := range action.HTTPHeaders {
		// net/http ignores a Host header in the map and sends request.Host.
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
			continue
		}
		request.Header.Set(h.Name, h.Value)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // as the kubelet: a probe checks health, not identity
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, probeBodyLimit))
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d, body %s", response.StatusCode, strconv.QuoteToASCII(string(body[:min(len(body), 120)])))
	}
	return nil
}
