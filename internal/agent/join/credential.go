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

// uninstallStep is how far an uninstall is. It is in the Secret, so that a process
// that is killed goes on with it, and does not register again.
type uninstallStep string

const (
	notUninstalling uninstallStep = ""
	uninstallAsked  uninstallStep = "asked"
	uninstallDone   uninstallStep = "done"
)

// credential is what the Secret has. One is never changed: a new one replaces it.
type credential struct {
	// Platform, Runtime and KeyPrint say what it was got for and with.
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
	// Revoked is kept, so that a new process does not register again by itself.
	Revoked bool
}

// without is the credential without what can be shown to anybody.
func (c *credential) without() *credential {
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

// data is the credential as the Secret has it.
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

// parseCredential reads the Secret with patience: what does not fit is left out,
// and a credential that lacks something is got anew.
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

// fits reports whether the credential is for this platform and runtime.
func (c *credential) fits(options *Options) bool {
	return c != nil && !c.Refresh.IsZero() && c.RuntimeID != "" && c.Platform == options.PlatformURL && c.Runtime == options.Runtime
}

// with is the credential with a new answer of the platform in it.
func (c *credential) with(given *platformv1.Credential) (*credential, error) {
	if given.GetAccessToken() == "" || given.GetRefreshToken() == "" {
		return nil, errors.New("the platform has answered without a credential: is its version right for this agent?")
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

// load reads the Secret; nil when there is none.
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

// storeTries bounds how often somebody else may be faster.
const storeTries = 5

// store writes the Secret. The credential may be used when it has.
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
