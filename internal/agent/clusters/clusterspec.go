package clusters

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
)

// TypeCluster is the value of credential.TypeLabel on the Secret of a cluster.
const TypeCluster = "cluster"

// Annotations of Secrets that we created: the ServiceAccount of the token, and
// when the token expires.
const (
	accountAnnotation = "slipway.dev/service-account"
	expiryAnnotation  = "slipway.dev/token-expires"
)

// maxConfig bounds the field config. Certificate authorities are its largest
// part.
const maxConfig = 256 << 10

// ClusterSpec is a cluster as its Secret describes it. It is immutable.
type ClusterSpec struct {
	// SecretName and SecretVersion identify the Secret.
	SecretName    string
	SecretVersion string

	Name   string
	Server string
	// Namespaces are those that may be used; empty is the whole cluster.
	Namespaces []string
	// Project is the AppProject that the cluster belongs to; empty is none.
	Project string
	// ClusterResources: with namespaces, objects without one may be deployed too.
	ClusterResources bool

	Labels      map[string]string
	Annotations map[string]string

	access access
	// accountNamespace and accountName are the ServiceAccount of the token;
	// empty if the token is not ours to renew.
	accountNamespace, accountName string
	expires                       time.Time
}

// access is the field config of the Secret.
type access struct {
	BearerToken string    `json:"bearerToken,omitempty"`
	TLS         accessTLS `json:"tlsClientConfig"`

	// These are refused.
	Username string          `json:"username,omitempty"`
	Password string          `json:"password,omitempty"`
	Exec     json.RawMessage `json:"execProviderConfig,omitempty"`
	AWS      json.RawMessage `json:"awsAuthConfig,omitempty"`
	Proxy    string          `json:"proxyUrl,omitempty"`
}

// accessTLS is Argo CD's tlsClientConfig. The data is base64, as of []byte.
type accessTLS struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName,omitempty"`
	CAData     []byte `json:"caData,omitempty"`
	CertData   []byte `json:"certData,omitempty"`
	KeyData    []byte `json:"keyData,omitempty"`
}

// Parse reads the Secret of a cluster. An error explains what is wrong and
// contains nothing of its content.
func Parse(from *corev1.Secret) (*ClusterSpec, error) {
	entry := &ClusterSpec{
		SecretName: from.Name, SecretVersion: from.ResourceVersion,
		Name: string(from.Data["name"]), Server: strings.TrimSuffix(string(from.Data["server"]), "/"),
		Labels: maps.Clone(from.Labels), Annotations: maps.Clone(from.Annotations),
		Project: string(from.Data["project"]), ClusterResources: string(from.Data["clusterResources"]) == "true",
	}
	// The labels are those that generators select clusters by.
	delete(entry.Labels, credential.TypeLabel)
	if entry.Server == project.LocalServer {
		return entry, nil // it gives the own cluster labels, and nothing else
	}
	// Only https: a token must not be sent in the clear.
	address, err := url.Parse(entry.Server)
	if err != nil || address.Scheme != "https" || address.Host == "" || address.User != nil {
		return nil, errors.New("the field server is no address of an API server: write https://host:port")
	}
	// As in Argo CD, the address is the default name.
	entry.Name = cmp.Or(entry.Name, entry.Server)
	if entry.Name == project.LocalName {
		return nil, fmt.Errorf("the name %s is that of the cluster which the runtime is in", project.LocalName)
	}
	for _, one := range strings.Split(string(from.Data["namespaces"]), ",") {
		if one = strings.TrimSpace(one); one != "" {
			entry.Namespaces = append(entry.Namespaces, one)
		}
	}
	if err := entry.parseAccess(from.Data["config"]); err != nil {
		return nil, err
	}
	return entry, entry.parseAccount(from.Annotations)
}

// parseAccess reads and checks the field config. Errors do not quote the field,
// because it contains the credential.
func (e *ClusterSpec) parseAccess(config []byte) error {
	if len(config) > maxConfig {
		return fmt.Errorf("the field config has more than %d bytes", maxConfig)
	}
	if err := json.Unmarshal(config, &e.access); err != nil {
		return errors.New("the field config is not JSON in the form that Argo CD describes")
	}
	given := &e.access
	switch {
	case len(given.Exec) > 0 || len(given.AWS) > 0:
		return errors.New("the field config has a program run to get a credential, which is refused: use a token of a service account (slipway cluster add makes one)")
	case given.Username != "" || given.Password != "":
		return errors.New("the field config has a name and password, which no API server takes any more: use a token of a service account")
	case given.Proxy != "":
		// Without the proxy another server might get the credential.
		return errors.New("the field config has a proxyUrl, which is not used: run a runtime in that cluster, or make it reachable and remove the field")
	case given.BearerToken == "" && (len(given.TLS.CertData) == 0 || len(given.TLS.KeyData) == 0):
		return errors.New("the field config has neither a bearerToken nor a client certificate with its key")
	case given.TLS.Insecure && len(given.TLS.CAData) > 0:
		return errors.New("the field config has both insecure and caData: one contradicts the other")
	}
	return nil
}

// parseAccount reads the annotations about the token. Without the annotation
// the token is not renewed: its owner is not known.
func (e *ClusterSpec) parseAccount(annotations map[string]string) error {
	account, ok := annotations[accountAnnotation]
	if !ok {
		return nil
	}
	var whole bool
	if e.accountNamespace, e.accountName, whole = strings.Cut(account, "/"); !whole || e.accountName == "" {
		return fmt.Errorf("the annotation %s is %q: write namespace/name", accountAnnotation, account)
	}
	expires, err := time.Parse(time.RFC3339, annotations[expiryAnnotation])
	if err != nil {
		return fmt.Errorf("the annotation %s is no time in the form of RFC 3339", expiryAnnotation)
	}
	e.expires = expires
	return nil
}

// token returns the bearer token; empty if a certificate is used.
func (e *ClusterSpec) token() secret.Text { return secret.New(e.access.BearerToken) }

// Scope is what the Secret says about projects and objects.
func (e *ClusterSpec) Scope() project.ClusterScope {
	return project.ClusterScope{Project: e.Project, Namespaces: e.Namespaces, OnlyNamespaced: len(e.Namespaces) > 0 && !e.ClusterResources}
}

// sameConnection reports whether the clients of one serve the other too. The
// token may differ, as it is read for each request.
func (e *ClusterSpec) sameConnection(other *ClusterSpec) bool {
	a, b := e.access.TLS, other.access.TLS
	return e.Server == other.Server && e.Name == other.Name && slices.Equal(e.Namespaces, other.Namespaces) &&
		e.Project == other.Project && e.ClusterResources == other.ClusterResources &&
		(e.access.BearerToken == "") == (other.access.BearerToken == "") &&
		a.Insecure == b.Insecure && a.ServerName == b.ServerName &&
		slices.Equal(a.CAData, b.CAData) && slices.Equal(a.CertData, b.CertData) && slices.Equal(a.KeyData, b.KeyData)
}

// remote returns how to connect to the cluster, with a token that is read for
// each request.
func (e *ClusterSpec) remote(token func() secret.Text) kube.Remote {
	to := kube.Remote{
		Server: e.Server, Authorities: e.access.TLS.CAData, ServerName: e.access.TLS.ServerName, Insecure: e.access.TLS.Insecure,
		Certificate: e.access.TLS.CertData, Key: secret.New(string(e.access.TLS.KeyData)),
	}
	if e.access.BearerToken != "" {
		to.Token = token
	}
	return to
}

// config encodes the field config with a token.
func (a access) config(token secret.Text) ([]byte, error) {
	a.BearerToken = token.Reveal()
	return json.Marshal(a)
}
