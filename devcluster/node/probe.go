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

// eagerFirst is the first wait between the extra checks of a container that has not answered yet.
const eagerFirst = 100 * time.Millisecond

// probeBodyLimit is how much of an answer is read.
const probeBodyLimit = 10 << 10

// streak counts checks against the thresholds of a probe.
type streak struct {
	success, failure int32 // thresholds
	good, bad        int32 // checks of the same result in a row
}

func newStreak(p *corev1.Probe) *streak {
	return &streak{success: max(p.SuccessThreshold, 1), failure: orDefault(p.FailureThreshold, 3)}
}

// add counts one check. passed and failed are true when its row has just reached the threshold.
func (s *streak) add(ok bool) (passed, failed bool) {
	if ok {
		s.good, s.bad = s.good+1, 0
		return s.good == s.success, false
	}
	s.good, s.bad = 0, s.bad+1
	return false, s.bad == s.failure
}

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
	// eager probes look more often than the period asks until the first success, so that a container counts as ready
	// when it is, not at the next tick. The extra looks cannot fail the probe.
	eager bool
}

// watch checks until ctx is done or report returns false. report is called each time a threshold is reached: with nil
// for success, and with the last error for failure.
func (p *probing) watch(ctx context.Context, report func(error) bool) {
	if !pause(ctx, time.Duration(p.spec.InitialDelaySeconds)*time.Second) {
		return
	}
	period := time.Duration(orDefault(p.spec.PeriodSeconds, 10)) * time.Second
	timeout := time.Duration(orDefault(p.spec.TimeoutSeconds, 1)) * time.Second
	counted := newStreak(p.spec)
	eager := p.eager && counted.success == 1
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		err := p.once(ctx, timeout)
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

// lookEagerly checks until one check succeeds, the next tick comes or ctx is done. Each wait is longer than the last.
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

func (p *probing) once(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.check(ctx)
}

// checkFor makes the check that a probe asks for. The ports are those of the Pod, and only the Pod itself is asked.
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

func undeclared(port string) error {
	return fmt.Errorf("no container of the Pod declares port %s; add it to the container's ports", port)
}

func dialTCP(ctx context.Context, to netip.AddrPort) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// getHTTP asks the container; an answer from 200 to 399 is a success. Redirects are not followed: they are answers too.
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
	request.Header.Set("User-Agent", "kube-probe/slipway")
	request.Header.Set("Accept", "*/*")
	for _, h := range action.HTTPHeaders {
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
			continue
		}
		request.Header.Set(h.Name, h.Value)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // as Kubernetes: a probe asks for life, not for identity
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
