package credential

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/secret"
)

// TypeLabel is the label that makes a Secret a credential; its values are the
// scopes.
const TypeLabel = "argocd.argoproj.io/secret-type"

// Scope is the set of addresses that a credential is for.
type Scope string

// The scopes, with Argo CD's words. Those for writing are not read:
// commits are pushed with the credential that the repository is fetched with.
const (
	Repository       Scope = "repository"
	Prefix           Scope = "repo-creds"
	RepositoryWrites Scope = "repository-write"
	PrefixWrites     Scope = "repo-write-creds"
)

// Kind is what is at the address.
type Kind string

// The kinds. OCI is what Argo CD calls its registries that hold no charts.
const (
	Git  Kind = "git"
	Helm Kind = "helm"
	OCI  Kind = "oci"
)

// Credential is one Secret.
type Credential struct {
	Scope Scope
	Kind  Kind
	URL   string
	Name  string // for people
	// Project is the only one that it serves; empty is for all.
	Project string
	// Identity is set by Store.For.
	Identity Identity

	Username      string
	Password      secret.Text
	BearerToken   secret.Text
	SSHPrivateKey secret.Text
	App           GitHubApp

	// ClientCertificate and ClientKey authenticate the client with mutual TLS.
	ClientCertificate string
	ClientKey         secret.Text

	// Insecure takes any certificate; InsecureIgnoreHostKey any host of SSH.
	Insecure              bool
	InsecureIgnoreHostKey bool

	EnableOCI          bool
	EnableLFS          bool
	ForceHTTPBasicAuth bool
	// InsecureOCIForceHTTP connects to a registry without TLS.
	InsecureOCIForceHTTP bool

	// Proxy can have a password in it.
	Proxy   secret.Text
	NoProxy string
}

// Identity is which Secrets a credential is made of. What one has opened is kept
// apart from what another has opened: it is a part of the key of caches. It is
// not the content of the Secrets, so that a token can be renewed without another
// fetch. The zero value is anonymous access.
type Identity struct {
	// Project is set if one of the Secrets serves one project only.
	Project string
	// Repository and Prefix are the Secrets; either can be empty.
	Repository, Prefix types.NamespacedName
}

// HasIdentity reports whether there is anything to log in with.
func (c *Credential) HasIdentity() bool {
	return c.Username != "" || !c.Password.IsZero() || !c.BearerToken.IsZero() ||
		!c.SSHPrivateKey.IsZero() || !c.App.IsZero() || c.ClientCertificate != ""
}

// Basic is the name and password for basic authentication. A password alone is
// a token, for which the name does not matter but must be there.
func (c *Credential) Basic() (user string, password secret.Text, ok bool) {
	if c.Username == "" && c.Password.IsZero() {
		return "", secret.Text{}, false
	}
	if c.Username == "" {
		return "x-access-token", c.Password, true
	}
	return c.Username, c.Password, true
}

// Parse reads a Secret. An error names the field and never its content.
func Parse(s *corev1.Secret) (Credential, error) {
	r := fields{secret: s}
	c := Credential{
		Scope: Scope(s.Labels[TypeLabel]), Kind: Kind(strings.ToLower(r.text("type"))),
		URL: r.text("url"), Name: r.text("name"), Project: r.text("project"),
		Username: r.text("username"), Password: r.hidden("password"), BearerToken: r.hidden("bearerToken"),
		SSHPrivateKey:     r.key("sshPrivateKey"),
		App:               r.app(),
		ClientCertificate: r.text("tlsClientCertData"), ClientKey: r.key("tlsClientCertKey"),
		Insecure: r.flag("insecure"), InsecureIgnoreHostKey: r.flag("insecureIgnoreHostKey"),
		EnableOCI: r.flag("enableOCI"), EnableLFS: r.flag("enableLfs"), ForceHTTPBasicAuth: r.flag("forceHttpBasicAuth"),
		InsecureOCIForceHTTP: r.flag("insecureOCIForceHttp"),
		Proxy:                r.hidden("proxy"), NoProxy: r.text("noProxy"),
	}
	c.Kind = cmp.Or(c.Kind, Git)
	return c, errors.Join(r.err, c.check(s))
}

// check validates the fields of a credential. It fails on a field that is not
// supported instead of ignoring it: a repository that does not open would not
// show why.
func (c *Credential) check(s *corev1.Secret) error {
	switch c.Scope {
	case Repository, Prefix, RepositoryWrites, PrefixWrites:
	default:
		return fmt.Errorf("the label %s is %q: write repository or repo-creds", TypeLabel, string(c.Scope))
	}
	switch c.Kind {
	case Git, Helm, OCI:
	default:
		return fmt.Errorf("the field type is %q: write git, helm or oci", string(c.Kind))
	}
	// In a fixed order: the message is in a condition, which must not change by
	// itself.
	for _, field := range slices.Sorted(maps.Keys(s.Data)) {
		if setting, _ := argosetting.Repository().Of(field, string(s.Data[field])); setting.Effect == argosetting.Refused {
			return fmt.Errorf("the field %s is not supported: %s", field, setting.Text)
		}
	}
	if c.URL == "" {
		return errors.New("the field url is missing: write the address of the repository")
	}
	if _, err := address.ParseForeign(c.URL); err != nil {
		return fmt.Errorf("the field url: %w", err)
	}
	if err := c.App.check(); err != nil {
		return err
	}
	if (c.ClientCertificate == "") != c.ClientKey.IsZero() {
		return errors.New("of the fields tlsClientCertData and tlsClientCertKey there is only one: write both or none")
	}
	return nil
}

// fields reads a Secret and keeps the first problem.
type fields struct {
	secret *corev1.Secret
	err    error
}

// text is without spaces at its ends, which kubectl create puts there from
// files that end with a new line.
func (f *fields) text(name string) string { return strings.TrimSpace(string(f.secret.Data[name])) }

// hidden is the value of a field as a secret.
func (f *fields) hidden(name string) secret.Text { return secret.New(f.text(name)) }

// key ends with a new line, without which some keys cannot be read.
func (f *fields) key(name string) secret.Text {
	text := f.text(name)
	if text == "" {
		return secret.Text{}
	}
	return secret.New(text + "\n")
}

// flag is a boolean field. An invalid value is an error and not false: a
// misspelled "true" would silently change how a host is verified.
func (f *fields) flag(name string) bool {
	text := f.text(name)
	if text == "" {
		return false
	}
	value, err := strconv.ParseBool(text)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("the field %s is neither true nor false: write one of them", name)
	}
	return value
}
