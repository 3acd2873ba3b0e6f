package credential_test

import (
	"fmt"
	neturl "net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

func newSecret(scope string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{credential.TypeLabel: scope}}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

// The fields of Argo CD's documents on declarative repositories.
func TestParse(t *testing.T) {
	got, err := credential.Parse(newSecret("repository", map[string]string{
		"url": "https://example.com/team/app.git\n", "type": "git", "name": "app", "project": "team", "username": "ada", "password": "pw\n",
		"insecure": "true", "insecureIgnoreHostKey": "false", "enableOCI": "true", "enableLfs": "true", "forceHttpBasicAuth": "true",
		"tlsClientCertData": "cert", "tlsClientCertKey": "key", "proxy": "http://proxy:1", "noProxy": "x", "sshPrivateKey": "ssh", "bearerToken": "bt",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got.URL != "https://example.com/team/app.git" || got.Scope != credential.Repository || got.Kind != credential.Git || got.Project != "team" {
		t.Errorf("got %+v", got)
	}
	if got.Password.Reveal() != "pw" || got.SSHPrivateKey.Reveal() != "ssh\n" || got.ClientKey.Reveal() != "key\n" || got.BearerToken.Reveal() != "bt" {
		t.Error("the secrets are not what was written")
	}
	if !got.Insecure || got.InsecureIgnoreHostKey || !got.EnableOCI || !got.EnableLFS || !got.ForceHTTPBasicAuth || got.NoProxy != "x" {
		t.Errorf("got %+v", got)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", got, got, got)} {
		for _, value := range []string{"pw", "ssh\n", "http://proxy"} {
			if strings.Contains(text, value) {
				t.Errorf("%q is shown in %s", value, text)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, scope string
		data        map[string]string
		want        string
	}{
		{"no label", "", map[string]string{"url": "https://example.com/x"}, "secret-type"},
		{"cluster", "cluster", map[string]string{"url": "https://example.com/x"}, "secret-type"},
		{"no url", "repository", nil, "url"},
		{"url that is none", "repository", map[string]string{"url": "https://user:hidden@ /x"}, "url"},
		{"type", "repository", map[string]string{"url": "https://example.com/x", "type": "svn"}, "type"},
		{"flag", "repository", map[string]string{"url": "https://example.com/x", "insecure": "maybe"}, "insecure"},
		{"half a pair", "repository", map[string]string{"url": "https://example.com/x", "tlsClientCertData": "x"}, "tlsClientCertKey"},
		{"workload identity", "repo-creds", map[string]string{"url": "https://dev.azure.com/x", "useAzureWorkloadIdentity": "true"}, "token"},
		{"service principal", "repo-creds", map[string]string{"url": "https://dev.azure.com/x", "azureServicePrincipalClientID": "1"}, "token"},
		{"GitHub App without an installation", "repo-creds", map[string]string{"url": "https://github.com/x", "githubAppID": "1", "githubAppPrivateKey": "hidden"}, "githubAppInstallationID"},
		{"GitHub App with a path", "repo-creds", map[string]string{"url": "https://github.com/x", "githubAppID": "1", "githubAppInstallationID": "2/..", "githubAppPrivateKey": "hidden"}, "githubAppInstallationID"},
		{"GitHub App without a key", "repo-creds", map[string]string{"url": "https://github.com/x", "githubAppID": "1", "githubAppInstallationID": "2"}, "githubAppPrivateKey"},
		{"GitHub App over http", "repo-creds", map[string]string{"url": "https://github.com/x", "githubAppID": "1", "githubAppInstallationID": "2", "githubAppPrivateKey": "hidden",
			"githubAppEnterpriseBaseUrl": "http://ghe.example.com"}, "https"},
	} {
		_, err := credential.Parse(newSecret(tt.scope, tt.data))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "argocd", Name: name}
}

func put(b *credential.Store, name string, scope credential.Scope, url, user string) {
	b.Set(key(name), credential.Credential{Scope: scope, URL: url, Username: user, Name: name})
}

// find parses an address and looks its credential up.
func find(b *credential.Store, url, project string) (credential.Credential, bool) {
	at, err := address.Parse(url)
	if err != nil {
		return credential.Credential{}, false
	}
	return b.For(at, project)
}

// Argo CD: a repository's own credentials first, then the longest prefix.
func TestFor(t *testing.T) {
	var b credential.Store
	put(&b, "exact", credential.Repository, "https://example.com/team/app.git", "exact")
	put(&b, "bare", credential.Repository, "https://example.com/team/bare", "")
	put(&b, "host", credential.Prefix, "https://example.com", "host")
	put(&b, "team", credential.Prefix, "https://example.com/team/", "team")
	put(&b, "ssh", credential.Prefix, "git@example.com:team", "ssh")
	put(&b, "write", credential.RepositoryWrites, "https://example.com/team/other", "write")
	put(&b, "registry", credential.Prefix, "registry.example.com/charts", "registry")
	for url, want := range map[string]string{
		"https://example.com/team/app":           "exact",
		"https://Example.com:443/Team/App.git/":  "exact",
		"https://example.com/team/bare":          "team",
		"https://example.com/team/other":         "team",
		"https://example.com/other/x":            "host",
		"https://example.com.evil.test/team/app": "",
		"https://example.comevil/team/app":       "",
		"http://example.com/team/app":            "",
		"https://example.com:8443/team/app":      "",
		"git@example.com:team/app.git":           "ssh",
		"ssh://git@example.com/team/app":         "ssh",
		"ssh://other@example.com/team/app":       "",
		"oci://registry.example.com/charts/web":  "registry",
		"registry.example.com/charts":            "registry",
		"registry.example.com/other":             "",
		"":                                       "",
	} {
		got, found := find(&b, url, "")
		if got.Username != want || found != (want != "") {
			t.Errorf("%q has %q, %t, want %q", url, got.Username, found, want)
		}
	}
	if bare, _ := find(&b, "https://example.com/team/bare", ""); bare.Name != "bare" {
		t.Errorf("the repository lost its own fields: %+v", bare)
	}
	b.Remove(key("exact"))
	if got, _ := find(&b, "https://example.com/team/app", ""); got.Username != "team" {
		t.Errorf("after removal it is %q", got.Username)
	}
}

// As in Argo CD, a Secret with a project serves that one only, and goes there
// before one without.
func TestForProject(t *testing.T) {
	var b credential.Store
	set := func(name string, scope credential.Scope, url, project, user string) {
		b.Set(key(name), credential.Credential{Scope: scope, URL: url, Username: user, Project: project})
	}
	set("all", credential.Repository, "https://example.com/x", "", "all")
	set("team", credential.Repository, "https://example.com/x", "team", "team")
	set("other", credential.Repository, "https://example.com/only", "other", "other")
	set("bare", credential.Repository, "https://example.com/deep/bare", "", "")
	set("a-prefix", credential.Prefix, "https://example.com/deep", "", "prefix")
	set("z-prefix", credential.Prefix, "https://example.com/deep", "team", "team-prefix")
	set("long", credential.Prefix, "https://example.com/deep/er", "other", "other-prefix")
	for _, test := range []struct{ url, project, want, scope string }{
		{"https://example.com/x", "", "all", ""},
		{"https://example.com/x", "team", "team", "team"},
		{"https://example.com/x", "other", "all", ""},
		{"https://example.com/only", "", "", ""},
		{"https://example.com/only", "team", "", ""},
		{"https://example.com/only", "other", "other", "other"},
		{"https://example.com/deep/a", "", "prefix", ""},
		{"https://example.com/deep/a", "team", "team-prefix", "team"},
		{"https://example.com/deep/a", "other", "prefix", ""},
		{"https://example.com/deep/er/a", "other", "other-prefix", "other"},
		{"https://example.com/deep/er/a", "team", "team-prefix", "team"},
		{"https://example.com/deep/bare", "", "prefix", ""},
		{"https://example.com/deep/bare", "team", "team-prefix", "team"},
	} {
		got, found := find(&b, test.url, test.project)
		if got.Username != test.want || found != (test.want != "") || got.Identity.Project != test.scope {
			t.Errorf("%s of project %q has %q of project %q, want %q of %q", test.url, test.project, got.Username, got.Identity.Project, test.want, test.scope)
		}
	}
	// The identity is that of the Secrets, and outlives a new password.
	before, _ := find(&b, "https://example.com/deep/bare", "team")
	set("z-prefix", credential.Prefix, "https://example.com/deep", "team", "renewed")
	after, _ := find(&b, "https://example.com/deep/bare", "team")
	if want := (credential.Identity{Project: "team", Repository: key("bare"), Prefix: key("z-prefix")}); before.Identity != want || after.Identity != want || after.Username != "renewed" {
		t.Errorf("the identity is %+v, and then %+v of %q", before.Identity, after.Identity, after.Username)
	}
}

func TestConfigMaps(t *testing.T) {
	var b credential.Store
	b.SetConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: credential.KnownHostsConfigMap}, Data: map[string]string{credential.KnownHostsKey: "line"}})
	b.SetConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: credential.AuthoritiesConfigMap}, Data: map[string]string{"example.com": "one", "other.com:8443": "two"}})
	b.SetConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "unrelated"}, Data: map[string]string{"example.com": "three"}})
	if string(b.KnownHosts()) != "line" {
		t.Errorf("known hosts are %q", b.KnownHosts())
	}
	for host, want := range map[string]string{"example.com": "one", "Example.com:443": "one", "other.com:8443": "two", "other.com": "", "[::1]:5": ""} {
		if got := string(b.CertificateAuthorities(host)); got != want {
			t.Errorf("%s has %q, want %q", host, got, want)
		}
	}
}

func TestBookIsSafeForConcurrentUse(t *testing.T) {
	var b credential.Store
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			for n := range 50 {
				put(&b, fmt.Sprint(i), credential.Prefix, fmt.Sprintf("https://example.com/%d", n), "u")
				find(&b, "https://example.com/1", "")
				b.SetKnownHosts([]byte("x"))
				b.KnownHosts()
			}
		})
	}
	wait.Wait()
}

func TestBasic(t *testing.T) {
	token := credential.Credential{Password: secret.New("t")}
	if user, password, ok := token.Basic(); !ok || user == "" || password.Reveal() != "t" {
		t.Errorf("a password alone is %q, %t", user, ok)
	}
	if _, _, ok := (&credential.Credential{}).Basic(); ok {
		t.Error("nothing is something")
	}
}

// Any address may be in a Secret; what is found for it is of its own host.
func FuzzFor(f *testing.F) {
	f.Add("https://example.com/team", "https://example.com/team/app")
	f.Add("git@example.com:a", "ssh://git@example.com/a/b")
	f.Add("example.com", "oci://example.com.evil/x")
	f.Fuzz(func(t *testing.T, prefix, url string) {
		var b credential.Store
		put(&b, "one", credential.Prefix, prefix, "u")
		if _, found := find(&b, url, ""); !found {
			return
		}
		one, err := neturl.Parse(strings.TrimSpace(prefix))
		other, otherErr := neturl.Parse(strings.TrimSpace(url))
		if err != nil || otherErr != nil || one.Host == "" || other.Host == "" {
			return
		}
		if !strings.EqualFold(one.Hostname(), other.Hostname()) {
			t.Errorf("%q opens %q", prefix, url)
		}
	})
}

// A Helm repository has the name of its Secret. Secrets of other projects, of
// prefixes and of Git give none.
func TestNamed(t *testing.T) {
	var b credential.Store
	set := func(name string, c credential.Credential) {
		c.Name, c.URL = "charts", "https://"+name+".example.com"
		b.Set(key(name), c)
	}
	set("git", credential.Credential{Scope: credential.Repository, Kind: credential.Git})
	set("all", credential.Credential{Scope: credential.Prefix, Kind: credential.Helm})
	set("theirs", credential.Credential{Scope: credential.Repository, Kind: credential.Helm, Project: "other"})
	if got := b.Named("charts", "team"); got != "" {
		t.Errorf("found %s", got)
	}
	set("everyone", credential.Credential{Scope: credential.Repository, Kind: credential.Helm})
	set("own", credential.Credential{Scope: credential.Repository, Kind: credential.Helm, Project: "team"})
	for project, want := range map[string]string{"team": "https://own.example.com", "third": "https://everyone.example.com"} {
		if got := b.Named("charts", project); got != want || b.Named("other", project) != "" {
			t.Errorf("%s: %s, want %s", project, got, want)
		}
	}
}
