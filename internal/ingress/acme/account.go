package acme

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/mholt/acmez/v3/acme"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
)

const (
	// accountSecret is the prefix of the name of an account's Secret; the name of
	// the resolver follows.
	accountSecret       = "slipway-acme-account-"
	accountKey          = "key.pem"
	accountRegistration = "account.json"
)

// registration identifies an account at an authority. It is stored beside the
// key, so that a restart needs no request to find the account again.
type registration struct {
	Directory string `json:"directory"`
	URL       string `json:"url"`
	Email     string `json:"email,omitempty"`
}

// register returns the account of the resolver and creates it if there is none.
// The key is stored before it is used: an account whose key is lost can never be
// used again, whereas registering twice with one key returns one account
// (RFC 8555, section 7.3.1).
func (a *authority) register(ctx context.Context, client *acme.Client) (acme.Account, error) {
	if a.account != nil {
		return *a.account, nil
	}
	kept, key, err := a.loadAccount(ctx)
	if err != nil {
		return acme.Account{}, err
	}
	account := acme.Account{Status: acme.StatusValid, PrivateKey: key, TermsOfServiceAgreed: true}
	if a.resolver.Email != "" {
		account.Contact = []string{"mailto:" + a.resolver.Email}
	}
	var known registration
	// An unreadable registration counts as none: the key finds the account again.
	_ = json.Unmarshal(kept.Data[accountRegistration], &known)
	wanted := registration{Directory: a.resolver.Directory, URL: known.URL, Email: a.resolver.Email}
	switch {
	case known == wanted && known.URL != "":
		account.Location = known.URL
	case known.Directory == wanted.Directory && known.URL != "":
		account.Location = known.URL
		account, err = client.UpdateAccount(ctx, account)
	default:
		account, err = a.newAccount(ctx, client, account)
	}
	if err != nil {
		return acme.Account{}, err
	}
	account.PrivateKey = key
	wanted.URL = account.Location
	if wanted != known {
		if err := a.saveRegistration(ctx, kept, wanted); err != nil {
			return acme.Account{}, err
		}
	}
	a.account = &account
	return account, nil
}

// newAccount registers an account. Some authorities accept only accounts that are
// bound to one of their customers (external account binding).
func (a *authority) newAccount(ctx context.Context, client *acme.Client, account acme.Account) (acme.Account, error) {
	if a.resolver.BindingID != "" {
		binding := acme.EAB{KeyID: a.resolver.BindingID, MACKey: strings.TrimRight(a.resolver.BindingKey.Reveal(), "=")}
		if err := account.SetExternalAccountBinding(ctx, client, binding); err != nil {
			return account, err
		}
	}
	return client.NewAccount(ctx, account)
}

// loadAccount reads the Secret of the account and creates it with a new key if
// there is none. When two replicas create it at the same time, the first one
// wins and the other reads its key. A Secret of that name without our labels is
// never used: it belongs to another program.
func (a *authority) loadAccount(ctx context.Context) (*corev1.Secret, crypto.Signer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client := a.manager.cluster.Client.CoreV1().Secrets(a.manager.cluster.Namespace)
	name := accountSecret + a.name
	kept, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		var made *corev1.Secret
		if made, err = newAccountSecret(name); err != nil {
			return nil, nil, err
		}
		kept, err = client.Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			kept, err = client.Get(ctx, name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if kept.Labels[certrequest.ManagedLabel] != certrequest.ManagedValue || kept.Labels[certrequest.PurposeLabel] != certrequest.PurposeAccount {
		return nil, nil, fmt.Errorf("the Secret %s/%s: %w", kept.Namespace, kept.Name, errNotOurs)
	}
	key, err := parseKey(kept.Data[accountKey])
	if err != nil {
		return nil, nil, fmt.Errorf("the Secret %s/%s has no key in %s: %w: restore it, or delete the Secret for a new account", kept.Namespace, kept.Name, accountKey, err)
	}
	return kept, key, nil
}

// newAccountSecret returns a Secret with a new key. EC256 is enough for an account
// and small in requests; the key type of the resolver is for certificates.
func newAccountSecret(name string) (*corev1.Secret, error) {
	key, err := newKey("EC256")
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			certrequest.ManagedLabel: certrequest.ManagedValue, certrequest.PurposeLabel: certrequest.PurposeAccount,
		}},
		Data: map[string][]byte{accountKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})},
	}, nil
}

// parseKey parses the stored key. Its errors must not contain parts of it.
func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is not a PKCS #8 key") // the error could show a part of it
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("it cannot sign")
	}
	return signer, nil
}

// saveRegistration stores the URL of the account at the authority.
func (a *authority) saveRegistration(ctx context.Context, kept *corev1.Secret, known registration) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	next := kept.DeepCopy()
	next.Data[accountRegistration] = text
	_, err = a.manager.cluster.Client.CoreV1().Secrets(next.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// clearRegistration forgets the URL of an account that the authority has lost. The
// key stays, so that the next attempt registers the same account again.
func (a *authority) clearRegistration(ctx context.Context) error {
	kept, _, err := a.loadAccount(ctx)
	if err != nil {
		return err
	}
	return a.saveRegistration(ctx, kept, registration{})
}
