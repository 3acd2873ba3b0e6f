package devcluster_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// A service account may do what a role binding gives it, and nothing else.
func TestServiceAccountRights(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	cluster.Apply(t, namespace, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: v1
kind: Secret
metadata: {name: word}
stringData: {word: slipway}
`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	token := must.Get(cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "reader",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	reader := clientWithToken(t, cluster, token.Status.Token)
	readSecret := func(namespace string) error {
		_, err := reader.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	if err := readSecret(namespace); !apierrors.IsForbidden(err) {
		t.Fatalf("without a role: got error %v, want 403", err)
	}
	cluster.Apply(t, namespace, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: read-secrets}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: read-secrets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: read-secrets}
subjects: [{kind: ServiceAccount, name: reader}]
`)
	// The API server follows roles by a watch of its own, which no client can
	// watch from outside: retry until it has seen them.
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		last = readSecret(namespace)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("with a role: %v: %v", err, last)
	}
	if err := readSecret(other); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: got error %v, want 403", err)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	tests := []struct {
		name   string
		client kubernetes.Interface
		want   func(error) bool
	}{
		{"anonymous", clientFor(t, rest.AnonymousClientConfig(cluster.Config)), func(err error) bool {
			return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
		}},
		{"made-up token", clientWithToken(t, cluster, "made-up"), apierrors.IsUnauthorized},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
			if !test.want(err) {
				t.Errorf("got error %v, want to be refused", err)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	version := must.Get(kubetest.Shared(t).Client.Discovery().ServerVersion())(t)
	if !regexp.MustCompile(`^v1\.37\.\d+`).MatchString(version.GitVersion) || version.Major != "1" || version.Minor != "37" {
		t.Errorf("version is %+v, want 1.37", version)
	}
}

func clientWithToken(t *testing.T, cluster *kubetest.Cluster, token string) kubernetes.Interface {
	t.Helper()
	config := rest.AnonymousClientConfig(cluster.Config)
	config.BearerToken = token
	return clientFor(t, config)
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	return must.Get(kubernetes.NewForConfig(config))(t)
}
