package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/signature"
)

// A project with signature keys gets commits that one of the keys has signed, by any
// name, and no others. The keys are those of the moment.
func TestSignedCommits(t *testing.T) {
	_, repository := demo(t)
	unsigned := repository.Head(t)
	key, err := openpgp.NewEntity("A", "", "a@example.com", nil)
	must(t, err)
	repository.Commit(t, map[string]string{"README": "signed"}, "signed")
	signed := repository.Sign(t, func(commit string) string {
		var text bytes.Buffer
		must(t, openpgp.ArmoredDetachSign(&text, key, strings.NewReader(commit), nil))
		return text.String()
	})
	repository.AnnotatedTag(t, "v1.0.0")
	var public bytes.Buffer
	writer, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	must(t, err)
	must(t, errors.Join(key.Serialize(writer), writer.Close()))
	book := &credential.Store{}
	s := open(t, func(o *source.Options) { o.Credentials = book })
	limits := func(keys ...string) *project.Project {
		spec := v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{SourceRepos: []string{"*"}}}
		for _, id := range keys {
			spec.Spec.SignatureKeys = append(spec.Spec.SignatureKeys, v1alpha1.SignatureKey{KeyID: id})
		}
		compiled, refused := project.Compile(&spec)
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		return compiled
	}
	got := func(limits *project.Project, revision string) error {
		admitted, err := limits.Admit(v1alpha1.ApplicationSource{RepoURL: repository.URL(), Path: ".", TargetRevision: revision})
		must(t, err)
		_, err = s.Resolve(t.Context(), admitted, 0)
		return err
	}
	own, other := limits(fmt.Sprintf("%X", key.PrimaryKey.Fingerprint)), limits("4AEE18F83AFDEB23")
	if err := got(limits(), unsigned); err != nil {
		t.Errorf("without keys: %v", err)
	}
	wantError(t, got(own, signed), source.Refused, "a key in the ConfigMap argocd-gpg-keys-cm")
	set := func(data map[string]string) {
		book.SetConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: signature.ConfigMap}, Data: data})
	}
	set(map[string]string{"a": public.String()})
	for _, revision := range []string{"main", "v1.0.0", signed, signed[:8], "1.x"} {
		if err := got(own, revision); err != nil {
			t.Errorf("%s: %v", revision, err)
		}
	}
	wantError(t, got(own, unsigned), source.Refused, "spec.signatureKeys", "is not signed: sign it with git commit -S")
	wantError(t, got(other, signed), source.Refused, "none of these keys")
	// Tags of another commit do not count among those that are read.
	for i := range 20 {
		repository.AnnotatedTag(t, fmt.Sprintf("a%d", i))
	}
	// An unsigned commit passes with a signed tag, by each of its names.
	tagged := repository.Commit(t, map[string]string{"README": "tagged"}, "tagged")
	repository.AnnotatedTag(t, "a")
	repository.SignTag(t, "lost", func(string) string { return "" })
	wantError(t, got(own, "a"), source.Refused, "is not signed")
	sign := func(content string) string {
		var text bytes.Buffer
		must(t, openpgp.ArmoredDetachSign(&text, key, strings.NewReader(content), nil))
		return text.String() + "\n"
	}
	repository.SignTag(t, "v2.0.0", sign)
	for _, revision := range []string{"v2.0.0", "2.x", "main", "a", tagged} {
		if err := got(own, revision); err != nil {
			t.Errorf("%s with a signed tag: %v", revision, err)
		}
	}
	wantError(t, got(other, "v2.0.0"), source.Refused, "is not signed")
	// Neither the tag of another text nor that of another commit is one of this.
	foreign := repository.Git(t, "rev-parse", "refs/tags/v2.0.0")
	repository.Commit(t, map[string]string{"README": "next"}, "next")
	repository.SignTag(t, "v3.0.0", func(tag string) string { return sign(strings.Replace(tag, "v3.0.0", "v3.0.1", 1)) })
	wantError(t, got(own, "v3.0.0"), source.Refused, "is not signed")
	repository.SignTag(t, "v4.0.0", func(tag string) string { return "\n" + repository.Git(t, "cat-file", "tag", foreign) + "\n" })
	wantError(t, got(own, "v4.0.0"), source.Refused, "is not signed")
	set(nil)
	wantError(t, got(own, "v2.0.0"), source.Refused, "is not signed")
	wantError(t, got(own, signed), source.Refused, "a key in the ConfigMap")
}
