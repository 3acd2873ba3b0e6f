package validate_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// tunnel are good values with places for what differs.
const tunnel = `
global:
  platform:
    url: URL
    accountId: "ACCOUNT"
    userToken: {token: ADMIN}
  runtime: {name: prod}
`

// TestAsked: R40, R31 to R34, P8, P10 to P12: each thing that only others know is one
// finding.
func TestAsked(t *testing.T) {
	w := newWorld(t)
	namespace := w.cluster.Namespace(t)
	w.secret(t, namespace, "good", map[string]string{"token": w.keys["admin"], "empty": ""})
	byName := func(name string) string {
		return strings.Replace(tunnel, "{token: ADMIN}", "{secretKeyRef: {name: "+name+"}}", 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"everything is right", tunnel, ""},
		{"R31 by reference", byName("good"), ""},
		{"a key for registering", strings.Replace(tunnel, "ADMIN", "REGISTER", 1), ""},
		{"R31 no Secret", byName("none"), "error SecretMissing global.platform.userToken.secretKeyRef.name"},
		{"R31 no key", strings.Replace(byName("good"), "good}", "good, key: other}", 1), "error SecretKeyMissing global.platform.userToken.secretKeyRef.key"},
		{"R31 an empty key", strings.Replace(byName("good"), "good}", "good, key: empty}", 1), "error SecretKeyMissing global.platform.userToken.secretKeyRef.key"},
		{"R31 no token", strings.Replace(tunnel, "    userToken: {token: ADMIN}\n", "", 1), "error TokenMissing global.platform.userToken.token"},
		{"P11 another key", strings.Replace(tunnel, "ADMIN", "slw_aaaaaaaaaaaaaaaa_bbbbbbbb", 1), "error TokenRefused global.platform.userToken.token"},
		{"R32 no admin", strings.Replace(tunnel, "ADMIN", "SOMEBODY", 1), "error NotAdmin global.platform.userToken.token"},
		{"P11 a key for reading", strings.Replace(tunnel, "ADMIN", "READER", 1), "error TokenScope global.platform.userToken.token"},
		{"R34 another account", strings.Replace(tunnel, "ACCOUNT", account, 1), "error AccountDiffers global.platform.accountId"},
		{"R33 the name is taken", strings.Replace(tunnel, "prod", "taken", 1), "error RuntimeNameTaken global.runtime.name"},
		{"no platform there", strings.Replace(tunnel, "URL", "http://127.0.0.1:1", 1), "error PlatformUnreachable global.platform.url"},
		{"R40 skipped", "installer: {skipValidation: true}\n" + strings.Replace(tunnel, "prod", "taken", 1), ""},
		{"R37 no Secret for Git", strings.Replace(tunnel, "{name: prod}", "{name: prod, gitCredentials: {password: {secretKeyRef: {name: none}}}}", 1),
			"error SecretMissing global.runtime.gitCredentials.password.secretKeyRef.name"},
		{"R80 no Secret for authorities", strings.Replace(tunnel, "    accountId", "    tls: {caCerts: {secretKeyRef: {name: none}}}\n    accountId", 1),
			"error SecretMissing global.platform.tls.caCerts.secretKeyRef.name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report := w.run(t, namespace, tt.text)
			if told(report) != tt.want {
				t.Errorf("found:\n%s\n%v\nwant:\n%s", told(report), report.Findings, tt.want)
			}
			for _, key := range w.keys {
				if strings.Contains(fmt.Sprintf("%+v", report), key) {
					t.Errorf("the report has a key: %+v", report)
				}
			}
		})
	}
}

// TestUpgrade: a runtime that has joined needs no key and keeps its name.
func TestUpgrade(t *testing.T) {
	w := newWorld(t)
	namespace := w.cluster.Namespace(t)
	w.secret(t, namespace, "slipway-token", map[string]string{"runtime": "taken", "account-id": w.account, "platform": w.url})
	for _, tt := range []struct{ name, text, want string }{
		{"the same", strings.Replace(tunnel, "prod", "taken", 1), ""},
		{"without a key", strings.Replace(strings.Replace(tunnel, "prod", "taken", 1), "    userToken: {token: ADMIN}\n", "", 1), ""},
		{"a key that has ended", strings.NewReplacer("prod", "taken", "ADMIN", "slw_aaaaaaaaaaaaaaaa_bbbbbbbb").Replace(tunnel), "info TokenRefused global.platform.userToken.token"},
		{"another name", tunnel, "error RuntimeDiffers global.runtime.name"},
	} {
		report := w.run(t, namespace, tt.text)
		if told(report) != tt.want || !report.Upgrade {
			t.Errorf("%s: found:\n%s\nwant:\n%s", tt.name, told(report), tt.want)
		}
	}
}

// address serves prod.example.com on this machine.
func (w *world) address(t *testing.T, status int, router string) {
	t.Helper()
	authority := pkitest.NewAuthority(t)
	pair := authority.Issue(t, "prod.example.com")
	certificate, err := tls.X509KeyPair([]byte(pair.Chain), []byte(pair.Key))
	must.Do(t, err)
	served := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if router != "" {
			rw.Header().Set(wire.RouterHeader, router)
		}
		rw.WriteHeader(status)
	}))
	served.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	served.StartTLS()
	t.Cleanup(served.Close)
	w.live.Roots = authority.Pool
	w.live.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, served.Listener.Addr().String())
	}
}

// TestAddress: R35, R41, P14: the address is really asked; what can come later is
// a warning, and another runtime behind it an error.
func TestAddress(t *testing.T) {
	w := newWorld(t)
	namespace := w.cluster.Namespace(t)
	class := namespace + "-class"
	_, err := w.cluster.Client.NetworkingV1().IngressClasses().Create(t.Context(),
		&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: networkingv1.IngressClassSpec{Controller: "k8s.io/ingress-nginx"}}, metav1.CreateOptions{})
	must.Do(t, err)
	t.Cleanup(func() {
		_ = w.cluster.Client.NetworkingV1().IngressClasses().Delete(context.Background(), class, metav1.DeleteOptions{})
	})
	text := strings.Replace(tunnel, "{name: prod}", "{name: prod, ingress: {enabled: true, hosts: [prod.example.com], className: "+class+"}}", 1)
	w.secret(t, namespace, "no-certificate", map[string]string{"token": "x"})
	certified := func(name string) string {
		return strings.Replace(text, "enabled: true", "enabled: true, tls: [{hosts: [prod.example.com], secretName: "+name+"}]", 1)
	}
	refused := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("connection refused")}
	}
	for _, tt := range []struct {
		name, text string
		status     int
		router     string
		want       string
	}{
		{"it answers", text, 404, "", ""},
		{"the runtime answers", text, 200, "prod", ""},
		{"another runtime answers", text, 200, "other", "error AddressFails global.runtime.ingress.hosts[0]"},
		{"it fails", text, 503, "", "warning AddressFails global.runtime.ingress.hosts[0]"},
		{"nobody answers", text, 0, "", "warning AddressUnreachable global.runtime.ingress.hosts[0]"},
		{"R41 skipped", strings.Replace(text, "enabled: true", "enabled: true, skipValidation: true", 1), 0, "", ""},
		{"P14 no class", strings.Replace(text, class, "none", 1), 200, "", "error IngressClassMissing global.runtime.ingress.className"},
		{"R95 no certificate yet", certified("none"), 200, "", "warning SecretMissing global.runtime.ingress.tls[0].secretName"},
		{"R95 no certificate in it", certified("no-certificate"), 200, "", "error SecretKeyMissing global.runtime.ingress.tls[0].secretName"},
		{"our own class", strings.Replace(text, class, "slipway", 1), 200, "", ""},
	} {
		if tt.status == 0 {
			w.live.Dial = refused
		} else {
			w.address(t, tt.status, tt.router)
		}
		report := w.run(t, namespace, tt.text)
		if told(report) != tt.want {
			t.Errorf("%s: found:\n%s\n%v\nwant:\n%s", tt.name, told(report), report.Findings, tt.want)
		}
	}
}

// TestGitToken: R38, P22 to P26: the token is shown to the provider, which reports what
// is missing; the finding for a certificate that is not trusted states how to trust it.
func TestGitToken(t *testing.T) {
	w := newWorld(t)
	namespace := w.cluster.Namespace(t)
	good := providertest.Token{Value: "ghp_good7f3a", Login: "robot", UserID: 7, Scopes: []string{"admin:repo_hook", "repo"}, Roles: map[string]string{"acme": "admin"}}
	weak, soon := good, good
	weak.Value, weak.Scopes = "ghp_weak7f3a", []string{"repo"}
	soon.Value, soon.ExpiresAt = "ghp_soon7f3a", time.Now().Add(72*time.Hour)
	provider := providertest.Start(t, gitprovider.GitHub, providertest.World{
		Tokens: []providertest.Token{good, weak, soon}, Owners: map[string]string{"acme": "Organization"},
		Repositories: []providertest.Repository{{Path: "acme/config", Private: true, DefaultBranch: "main"}},
	})
	_, err := platformv1connect.NewGitServiceClient(http.DefaultClient, w.url).SetGitSettings(t.Context(), authorised(w, &platformv1.SetGitSettingsRequest{
		Settings: &platformv1.GitSettings{Provider: "github", ApiUrl: provider.APIURL, SharedRepository: provider.URL + "/acme/config.git"},
	}))
	must.Do(t, err)
	authorities := "agent:\n  repositories:\n    certificates:\n      git.example.com: |\n        " + strings.ReplaceAll(strings.TrimSpace(string(provider.CA)), "\n", "\n        ") + "\n"
	with := func(token string) string {
		return authorities + strings.Replace(tunnel, "{name: prod}", "{name: prod, gitCredentials: {password: {value: "+token+"}}}", 1)
	}
	const key = " global.runtime.gitCredentials.password.value"
	for _, tt := range []struct{ name, text, want, says string }{
		{"good", with(good.Value), "", ""},
		{"P23 a scope is missing", with(weak.Value), "error GitScopeMissing" + key, "admin:repo_hook"},
		{"P24 it ends soon", with(soon.Value), "warning GitTokenExpires" + key, "make a new one"},
		{"P22 not known", with("ghp_other"), "error GitTokenRefused" + key, "scopes"},
		{"P26 not trusted", strings.TrimPrefix(with(good.Value), authorities), "error GitUnreachable" + key, "agent.repositories.certificates"},
		{"good, with a key for registering", strings.Replace(with(good.Value), "ADMIN", "REGISTER", 1), "", ""},
		{"P23 with a key for registering", strings.Replace(with(weak.Value), "ADMIN", "REGISTER", 1), "error GitScopeMissing" + key, "admin:repo_hook"},
	} {
		report := w.run(t, namespace, tt.text)
		if told(report) != tt.want || tt.says != "" && !strings.Contains(report.Findings[0].String(), tt.says) {
			t.Errorf("%s: found:\n%s\n%v\nwant:\n%s", tt.name, told(report), report.Findings, tt.want)
		}
		if strings.Contains(fmt.Sprintf("%+v", report), "7f3a") {
			t.Errorf("%s: the report has the token: %+v", tt.name, report)
		}
	}
	// A check leaves no denials in the audit log.
	entries, err := platformv1connect.NewAuditServiceClient(http.DefaultClient, w.url).ListEntries(t.Context(), authorised(w, &platformv1.ListEntriesRequest{}))
	must.Do(t, err)
	for _, entry := range entries.Msg.GetEntries() {
		if entry.GetOutcome() == "denied" {
			t.Errorf("the audit log has %v", entry)
		}
	}
	if writes := provider.Writes(); len(writes) > 0 {
		t.Errorf("the check wrote: %q", writes)
	}
}

// TestUnreadableCluster: what cannot be read is reported once, with the reason.
func TestUnreadableCluster(t *testing.T) {
	w := newWorld(t)
	nobody := *w.cluster.Cluster
	nobody.Client = anonymous(t, w)
	live := *w.live
	live.Cluster = &nobody
	report := validate.Run(t.Context(), validate.Options{Values: strings.NewReader(w.values(tunnel)), Namespace: "slipway", World: &live})
	if told(report) != "error ClusterUnreadable " {
		t.Errorf("found:\n%s", told(report))
	}
}
