package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/devcluster/must"
)

// A probe's life in fake time: when it looks, and what it reports. A container responds from upAfter on, and fails
// between downAt and downUntil.
func TestProbing(t *testing.T) {
	for _, tt := range []struct {
		name              string
		probe             corev1.Probe
		eager             bool
		upAfter           time.Duration
		downAt, downUntil time.Duration
		want              string // "seconds:ok" or "seconds:bad", in order, in 30 seconds
	}{
		{"up at once", corev1.Probe{PeriodSeconds: 10}, false, 0, 0, 0, "0:ok"},
		{"initial delay", corev1.Probe{PeriodSeconds: 10, InitialDelaySeconds: 7}, false, 0, 0, 0, "7:ok"},
		{"slow start", corev1.Probe{PeriodSeconds: 10}, false, 500 * time.Millisecond, 0, 0, "10:ok"},
		{"slow start, eager", corev1.Probe{PeriodSeconds: 10}, true, 500 * time.Millisecond, 0, 0, "0.7:ok"},
		{"never up", corev1.Probe{PeriodSeconds: 5, FailureThreshold: 3}, false, time.Hour, 0, 0, "10:bad"},
		{"never up, eager", corev1.Probe{PeriodSeconds: 5, FailureThreshold: 3}, true, time.Hour, 0, 0, "10:bad"},
		{"three in a row", corev1.Probe{PeriodSeconds: 1, SuccessThreshold: 3}, true, 0, 0, 0, "2:ok"},
		{"down and up", corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3}, true, 0, 3 * time.Second, 6 * time.Second, "0:ok 5:bad 6:ok"},
		{"a short dip", corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3}, true, 0, 3 * time.Second, 5 * time.Second, "0:ok 5:ok"},
		{"defaults", corev1.Probe{}, false, time.Hour, 0, 0, "20:bad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				p := probing{spec: &tt.probe, eager: tt.eager, check: func(context.Context) error {
					at := time.Since(begin)
					if at < tt.upAfter || at >= tt.downAt && at < tt.downUntil {
						return errors.New("down")
					}
					return nil
				}}
				var got []string
				p.watch(ctx, func(err error) bool {
					word := "ok"
					if err != nil {
						word = "bad"
					}
					got = append(got, fmt.Sprintf("%v:%s", time.Since(begin).Seconds(), word))
					return true
				})
				if s := strings.Join(got, " "); s != tt.want {
					t.Errorf("reported %q, want %q", s, tt.want)
				}
			})
		})
	}
}

func TestProbingTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := probing{spec: &corev1.Probe{TimeoutSeconds: 2, PeriodSeconds: 5, FailureThreshold: 2}, check: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		p.watch(t.Context(), func(err error) bool {
			if at := time.Since(begin); at != 7*time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %s: %v", at, err)
			}
			return false
		})
	})
}

func TestProbeChecks(t *testing.T) {
	handler := http.NewServeMux()
	handler.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example" || r.Header.Get("X-Probe") != "yes" || r.FormValue("q") != "1" || !strings.HasPrefix(r.UserAgent(), "kube-probe/") {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	handler.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	})
	handler.HandleFunc("/down", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too\x1bbad", http.StatusServiceUnavailable)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	closed.Close()
	real := func(address string) uint16 { return netip.MustParseAddrPort(address).Port() }
	ports := portMap{addr: netip.MustParseAddr("127.0.0.1"), list: []listenPort{
		{container: "main", name: "http", port: 80, real: real(plain.Listener.Addr().String())},
		{container: "main", name: "https", port: 443, real: real(secure.Listener.Addr().String())},
		{container: "main", name: "closed", port: 81, real: real(closed.Addr().String())},
	}}
	headers := []corev1.HTTPHeader{{Name: "host", Value: "shop.example"}, {Name: "X-Probe", Value: "yes"}}
	get := func(path, port string, scheme corev1.URIScheme) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.Parse(port), Scheme: scheme, HTTPHeaders: headers}}
	}
	dial := func(port string) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.Parse(port)}}
	}
	for _, tt := range []struct {
		name    string
		handler corev1.ProbeHandler
		err     string
	}{
		{"http", get("/ok?q=1", "80", corev1.URISchemeHTTP), ""},
		{"named", get("ok?q=1", "http", ""), ""},
		{"https", get("/ok?q=1", "443", corev1.URISchemeHTTPS), ""},
		{"redirect", get("/redirect", "80", ""), ""},
		{"status", get("/down", "80", ""), `statuscode: 503, body "too\x1bbad`},
		{"missing", get("/ok", "80", ""), "statuscode: 418"},
		{"refused", get("/ok", "81", ""), "connection refused"},
		{"undeclared", get("/ok", "82", ""), "no container of the Pod declares port 82"},
		{"undeclared name", get("/ok", "nope", ""), "declares port nope"},
		{"tcp", dial("http"), ""},
		{"tcp refused", dial("81"), "connection refused"},
		{"tcp undeclared", dial("9"), "declares port 9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := checkFor(&corev1.Probe{ProbeHandler: tt.handler}, "main", ports)(ctx)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("check gave %v, want %q", err, tt.err)
			}
		})
	}
}
