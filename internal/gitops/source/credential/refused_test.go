package credential_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
)

// TestRefusal: a repository finds the Secret that would have been for it. One of
// exactly the repository goes before one of a prefix.
func TestRefusal(t *testing.T) {
	refused := func(name, scope, url, reason string) credential.RefusedSecret {
		return credential.Refuse(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: name, Labels: map[string]string{credential.TypeLabel: scope}},
			Data:       map[string][]byte{"url": []byte(url + "\n")},
		}, errors.New(reason))
	}
	store := &credential.Store{}
	refusal := func(url, project string) string {
		at, _ := address.Parse(url)
		return store.Refusal(at, project)
	}
	if got := refusal("https://git.example.com/team/app", ""); got != "" {
		t.Errorf("an empty store refuses: %s", got)
	}
	store.SetRefused([]credential.RefusedSecret{
		refused("z", "repo-creds", "https://git.example.com/team", "second prefix"),
		refused("y", "repo-creds", "https://git.example.com", "no field\nand another"),
		refused("exact", "repository", "https://git.example.com/team/app.git", "no field"),
		refused("broken", "repository", "", "the field url is missing"),
		refused("writes", "repository-write", "https://other.example.com/a", "for writing"),
	})
	for url, want := range map[string]string{
		"https://git.example.com/team/app": "the Secret argocd/exact is refused: no field",
		"https://git.example.com/team/b":   "the Secret argocd/y is refused: no field; and another",
		"https://other.example.com/a":      "",
		"https://elsewhere.example.com/a":  "",
		"":                                 "",
	} {
		if got := refusal(url, ""); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	// A Secret of a project is named to that one only.
	own := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: "own", Labels: map[string]string{credential.TypeLabel: "repository"}},
		Data:       map[string][]byte{"url": []byte("https://git.example.com/own"), "project": []byte("team")},
	}
	store.SetRefused([]credential.RefusedSecret{credential.Refuse(own, errors.New("no field"))})
	if got, other := refusal("https://git.example.com/own", "team"), refusal("https://git.example.com/own", "other"); got == "" || other != "" {
		t.Errorf("%q for its project, %q for another", got, other)
	}
	store.SetRefused(nil)
	if got := refusal("https://git.example.com/team/app", ""); got != "" {
		t.Errorf("a Secret that was corrected is still refused: %s", got)
	}
}

// TestRefusalIsStable: of several fields that are not supported it is always the
// same one that is named.
func TestRefusalIsStable(t *testing.T) {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{credential.TypeLabel: "repository"}},
		Data: map[string][]byte{
			"url": []byte("https://git.example.com/a"), "useAzureWorkloadIdentity": []byte("true"), "gcpServiceAccountKey": []byte("4"),
		},
	}
	_, first := credential.Parse(s)
	for range 50 {
		if _, err := credential.Parse(s); err == nil || err.Error() != first.Error() {
			t.Fatalf("%v, and then %v", first, err)
		}
	}
}
