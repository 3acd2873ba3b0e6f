package clusters

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// fieldManager is the field manager of the Secrets.
const fieldManager = "slipway-clusters"

// newSecret returns the Secret of a cluster that is added.
func newSecret(namespace string, of *runtimev1.AddClusterRequest) (*corev1.Secret, error) {
	if problems := validation.IsDNS1123Subdomain(of.GetName()); len(problems) > 0 {
		return nil, fmt.Errorf("%q is no name of a cluster: %s", of.GetName(), problems[0])
	}
	for _, one := range of.GetNamespaces() {
		if problems := validation.IsDNS1123Label(one); len(problems) > 0 {
			return nil, fmt.Errorf("%q is no namespace: %s", one, problems[0])
		}
	}
	for key, value := range of.GetLabels() {
		// The type label is ours: with another value the Secret would not be a
		// cluster.
		if key == credential.TypeLabel || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			return nil, fmt.Errorf("%s=%s cannot be a label of a cluster", key, value)
		}
	}
	token := secret.New(of.GetToken())
	config, err := access{TLS: accessTLS{CAData: of.GetCertificateAuthority()}}.config(token)
	if err != nil {
		return nil, err
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: secretName(of.GetServer()),
			Labels: maps.Clone(of.GetLabels()), Annotations: maps.Clone(of.GetAnnotations()),
		},
		Data: map[string][]byte{
			"name": []byte(of.GetName()), "server": []byte(of.GetServer()), "config": config,
		},
	}
	if made.Labels == nil {
		made.Labels = map[string]string{}
	}
	made.Labels[credential.TypeLabel] = TypeCluster
	if len(of.GetNamespaces()) > 0 {
		made.Data["namespaces"] = []byte(strings.Join(of.GetNamespaces(), ","))
	}
	if of.GetServiceAccount() == "" {
		return made, nil
	}
	expires, err := expiryOf(token)
	if err != nil {
		return nil, err
	}
	setToken(made, config, expires)
	made.Annotations[accountAnnotation] = of.GetServiceAccountNamespace() + "/" + of.GetServiceAccount()
	return made, nil
}

// secretName returns the name of the Secret of a cluster: one for each address.
func secretName(server string) string {
	sum := sha256.Sum256([]byte(strings.TrimSuffix(server, "/")))
	return "slipway-cluster-" + hex.EncodeToString(sum[:8])
}

// store creates the Secret of a cluster, or replaces the existing one, which
// another tool may have created under another name.
func (s *Service) store(ctx context.Context, wanted *corev1.Secret, entry *ClusterSpec) error {
	secrets := s.Home.Client.CoreV1().Secrets(s.Namespace)
	if known := s.Registry.find("", entry.Server); known != nil {
		wanted.Name = known.SecretName // it may be one that a user created
	}
	_, err := secrets.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("store the Secret of the cluster: %w", err))
	}
	return nil
}

// tokenClaims is the part of a token that is read.
type tokenClaims struct {
	Expires int64 `json:"exp"`
}

// unverifiedClaims reads the claims of a token without verifying it.
func unverifiedClaims(token secret.Text) (tokenClaims, error) {
	var claims tokenClaims
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return claims, errors.New("the token is not that of a service account")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return claims, errors.New("the token is not that of a service account")
	}
	return claims, nil
}

// parseVersion reads the response of /version.
func parseVersion(raw []byte) (string, error) {
	var info version.Info
	if err := json.Unmarshal(raw, &info); err != nil || info.GitVersion == "" {
		return "", errors.New("the server at that address is not an API server")
	}
	return info.GitVersion, nil
}
