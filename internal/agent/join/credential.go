package join

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// uninstallStep is the progress of an uninstall. It is stored in the Secret, so
// that a restarted process continues it and does not register again.
type uninstallStep string

// The steps of an uninstall, in their order.
const (
	notUninstalling    uninstallStep = ""
	uninstallRequested uninstallStep = "asked"
	uninstallDone      uninstallStep = "done"
)

// credential is the content of the Secret. It is immutable: a new one replaces
// it.
type credential struct {
	// Platform, Runtime and KeyPrint identify what it was issued for and with.
	Platform, Runtime, KeyPrint string

	RuntimeID, AccountID string
	Refresh, Access      secret.Text
	// AccessExpires is by the platform's clock.
	AccessExpires time.Time
	PlatformKeys  string
	TunnelURLs    []string
	TunnelHost    string
	Git           *platformv1.GitSettings
	Uninstall     uninstallStep
	// Revoked is stored, so that a restarted process does not register again by
	// itself.
	Revoked bool
}

// redacted returns the credential without its public fields, which may change
// without a new token.
func (c *credential) redacted() *credential {
	bare := *c
	bare.Access, bare.Refresh, bare.AccessExpires, bare.TunnelURLs = secret.Text{}, secret.Text{}, time.Time{}, nil
	return &bare
}

// The keys of the Secret.
const (
	dataPlatform  = "platform"
	dataRuntime   = "runtime"
	dataKeyPrint  = "key-fingerprint"
	dataRuntimeID = "runtime-id"
	dataAccountID = "account-id"
	dataRefresh   = "refresh-token"
	dataAccess    = "access-token"
	dataExpires   = "access-expires-at"
	dataKeys      = "platform-keys"
	dataTunnels   = "tunnel-urls"
	dataHost      = "tunnel-host"
	dataGit       = "git-settings"
	dataUninstall = "uninstall"
	dataRevoked   = "revoked"
)

// data encodes the credential for the Secret.
func (c *credential) data() map[string][]byte {
	data := map[string][]byte{}
	for key, value := range map[string]string{
		dataPlatform: c.Platform, dataRuntime: c.Runtime, dataKeyPrint: c.KeyPrint, dataRuntimeID: c.RuntimeID, dataAccountID: c.AccountID,
		dataRefresh: c.Refresh.Reveal(), dataAccess: c.Access.Reveal(), dataKeys: c.PlatformKeys,
		dataTunnels: strings.Join(c.TunnelURLs, "\n"), dataHost: c.TunnelHost, dataUninstall: string(c.Uninstall),
	} {
		if value != "" {
			data[key] = []byte(value)
		}
	}
	if !c.AccessExpires.IsZero() {
		data[dataExpires] = []byte(c.AccessExpires.UTC().Format(time.RFC3339Nano))
	}
	if c.Revoked {
		data[dataRevoked] = []byte("true")
	}
	if c.Git != nil {
		if text, err := protojson.Marshal(c.Git); err == nil {
			data[dataGit] = text
		}
	}
	return data
}

// parseCredential reads the Secret leniently: invalid fields are left out, and
// an incomplete credential is replaced by a new registration.
func parseCredential(data map[string][]byte) *credential {
	c := &credential{
		Platform: string(data[dataPlatform]), Runtime: string(data[dataRuntime]), KeyPrint: string(data[dataKeyPrint]),
		RuntimeID: string(data[dataRuntimeID]), AccountID: string(data[dataAccountID]),
		Refresh: secret.New(string(data[dataRefresh])), Access: secret.New(string(data[dataAccess])),
		PlatformKeys: string(data[dataKeys]), TunnelHost: string(data[dataHost]), Uninstall: uninstallStep(data[dataUninstall]),
	}
	c.Revoked = string(data[dataRevoked]) == "true"
	c.TunnelURLs = strings.Fields(string(data[dataTunnels]))
	if at, err := time.Parse(time.RFC3339Nano, string(data[dataExpires])); err == nil {
		c.AccessExpires = at
	}
	if text := data[dataGit]; len(text) > 0 {
		git := &platformv1.GitSettings{}
		if protojson.Unmarshal(text, git) == nil {
			c.Git = git
		}
	}
	return c
}

// matches reports whether the credential is for this platform and runtime.
func (c *credential) matches(options *Options) bool {
	return c != nil && !c.Refresh.IsZero() && c.RuntimeID != "" && c.Platform == options.PlatformURL && c.Runtime == options.Runtime
}

// merge returns the credential with a new response of the platform.
func (c *credential) merge(given *platformv1.Credential) (*credential, error) {
	if given.GetAccessToken() == "" || given.GetRefreshToken() == "" {
		return nil, errors.New("the platform returned no credential: is its version compatible with this agent?")
	}
	next := *c
	next.Access, next.Refresh = secret.New(given.GetAccessToken()), secret.New(given.GetRefreshToken())
	next.AccessExpires = given.GetAccessExpiresAt().AsTime()
	next.Revoked, next.Uninstall = false, notUninstalling
	next.PlatformKeys = given.GetPlatformKeys()
	next.TunnelURLs = slices.Clone(given.GetTunnelUrls())
	next.TunnelHost = given.GetTunnelHost()
	return &next, nil
}

// load reads the Secret; nil if there is none.
func (m *Membership) load(ctx context.Context) (*credential, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	found, err := m.secrets().Get(ctx, SecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s/%s: %w", m.options.Namespace, SecretName, err)
	}
	return parseCredential(found.Data), nil
}

// storeTries bounds the retries after conflicts with other writers.
const storeTries = 5

// store writes the Secret. The credential may be used only after it returns.
func (m *Membership) store(ctx context.Context, c *credential) error {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	var err error
	for range storeTries {
		if err = m.storeOnce(ctx, c); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write the Secret %s/%s: %w", m.options.Namespace, SecretName, err)
	}
	return nil
}

// storeOnce makes one attempt to create or update the Secret.
func (m *Membership) storeOnce(ctx context.Context, c *credential) error {
	found, err := m.secrets().Get(ctx, SecretName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if missing {
		found = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: m.options.Namespace}, Type: corev1.SecretTypeOpaque}
	}
	labels := maps.Clone(found.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[mode.ManagedLabel], labels[mode.RuntimeLabel] = "slipway", m.options.Runtime
	found.Labels, found.Data = labels, c.data()
	if owner := m.options.Owner; owner != nil {
		found.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if missing {
		_, err = m.secrets().Create(ctx, found, metav1.CreateOptions{})
		return err
	}
	_, err = m.secrets().Update(ctx, found, metav1.UpdateOptions{})
	return err
}
