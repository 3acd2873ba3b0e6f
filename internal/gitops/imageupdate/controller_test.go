package imageupdate_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/programs"
)

const quick = 50 * time.Millisecond

func day(n int) time.Time { return time.Date(2024, 1, n, 0, 0, 0, 0, time.UTC) }

// TestDocumentedExamples: the annotations of the Image Updater's documentation, with a
// real registry and a real Git server.
func TestDocumentedExamples(t *testing.T) {
	w := newWorld(t)
	tags := map[string]time.Time{
		"1.19.1": day(1), "1.19.9": day(2), "1.26.0": day(3), "1.26.3": day(4), "2.0.0-rc1": day(5),
		"v1.0.0-abc": day(8), "v1.0.0-def": day(7), "latest": day(9), "2024-01-02": day(1), "2024-11-30": day(1),
	}
	digests := map[string]string{}
	for tag, built := range tags {
		digests[tag] = w.push(t, "some/image", tag, built)
	}
	w.push(t, "bar/foo", "2.1.0", day(1))
	digest := digests["latest"]
	for _, tt := range []struct {
		name, kind        string
		annotations       map[string]string
		files             map[string]string
		image, file, want string
		branch            string
	}{
		{name: "patch-branch", kind: "Kustomize", annotations: map[string]string{"image-list": "REG/some/image:~1.19"},
			file: "app/.argocd-source-patch-branch.yaml", want: "kustomize:\n  images:\n    - REG/some/image:1.19.9\n"},
		{name: "helm", kind: "Helm", annotations: map[string]string{"image-list": "REG/some/image:~1.26"},
			file: "app/.argocd-source-helm.yaml", want: "helm:\n  parameters:\n    - name: image.name\n      value: REG/some/image\n      forceString: true\n    - name: image.tag\n      value: 1.26.3\n      forceString: true\n"},
		{name: "latest-build", kind: "Kustomize", annotations: map[string]string{
			"image-list": "yourtool=REG/some/image", "yourtool.update-strategy": "latest", "yourtool.allow-tags": "regexp:^v1.0.0-[0-9a-zA-Z]+$",
			"write-back-target": "kustomization",
		}, files: map[string]string{"app/kustomization.yaml": "# keep\nimages:\n- name: REG/some/image\n  newTag: v1.0.0-def # ours\n"},
			file: "app/kustomization.yaml", want: "# keep\nimages:\n- name: REG/some/image\n  newTag: v1.0.0-abc # ours\n"},
		{name: "custom-image", kind: "Kustomize", annotations: map[string]string{
			"image-list": "argocd=REG/some/image:1.26.x", "argocd.kustomize.image-name": "quay.io/argoproj/argocd", "write-back-target": "kustomization:../base",
		}, files: map[string]string{"base/kustomization.yml": "resources: [x.yaml]\n"},
			file: "base/kustomization.yml", want: "resources: [x.yaml]\nimages:\n- name: quay.io/argoproj/argocd\n  newName: REG/some/image\n  newTag: 1.26.3\n"},
		{name: "dex", kind: "Helm", annotations: map[string]string{
			"image-list": "dex=REG/some/image:latest", "dex.update-strategy": "digest", "dex.helm.image-name": "dex.image.name", "dex.helm.image-tag": "dex.image.tag",
			"write-back-target": "helmvalues:/values/test.yaml",
		}, files: map[string]string{"values/test.yaml": "dex:\n  image: # of dex\n    name: REG/some/image\n    tag: old\n"},
			file: "values/test.yaml", want: "dex:\n  image: # of dex\n    name: REG/some/image\n    tag: latest@" + digest + "\n"},
		{name: "two-images", kind: "Helm", annotations: map[string]string{
			"image-list": "fooalias=REG/some/image:1.26.x, baralias=REG/bar/foo", "fooalias.helm.image-name": "foo.image", "fooalias.helm.image-tag": "foo.tag",
			"baralias.helm.image-spec": "bar", "baralias.force-update": "true", "write-back-target": "helmvalues:values.yaml", "git-branch": "main:image-updater-{{range .Images}}-{{.NewTag}}{{end}}",
		}, files: map[string]string{"app/values.yaml": "foo: {image: REG/some/image, tag: '1.0'}\nbar: x:1\n"}, branch: "image-updater--1.26.3-2.1.0",
			file: "app/values.yaml", want: "foo: {image: REG/some/image, tag: '1.26.3'}\nbar: REG/bar/foo:2.1.0\n"},
		{name: "calendar", kind: "Directory", annotations: map[string]string{
			"image-list": "a=REG/some/image", "a.update-strategy": "alphabetical", "a.allow-tags": "regexp:^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "a.ignore-tags": "2023-*, 2022-*",
		}, files: map[string]string{"app/web.yaml": "kind: Pod\nspec: {containers: [{image: \"REG/some/image:2024-01-02\"}]} # pod\n"},
			file: "app/web.yaml", want: "kind: Pod\nspec: {containers: [{image: \"REG/some/image:2024-11-30\"}]} # pod\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"app/x.yaml": "kind: ConfigMap\n"}
			for name, text := range tt.files {
				files[name] = strings.ReplaceAll(text, "REG", w.registry)
			}
			repository := w.git.Repository(t, tt.name, files)
			w.apply(t, application{name: tt.name, path: "app", kind: tt.kind, repoURL: repository.URL(), annotations: tt.annotations, images: []string{"REG/some/image:1.0.0"}})
			_, stop := w.start(t, quick)
			branch := orDefault(tt.branch, gittest.Main)
			w.awaitFile(t, repository, branch, tt.file, tt.want)
			stop()
			if got := commits(t, repository, branch); got != "2" {
				t.Errorf("there are %s commits", got)
			}
			if got := repository.Git(t, "log", "-1", "--format=%an <%ae>%n%B", branch); !strings.HasPrefix(got, "argocd-image-updater <noreply@argoproj.io>\nbuild: automatic update of "+tt.name+"\n\nupdates image "+w.registry) {
				t.Errorf("the commit is %s", got)
			}
		})
	}
}

// TestBurst: 50 tags that are pushed in a row give one commit, with events of the
// registry and without. Another controller that starts on the same branch, as after
// kill -9, makes none.
func TestBurst(t *testing.T) {
	w := newWorld(t)
	w.push(t, "team/web", "1.0.0", day(1))
	repository := w.git.Repository(t, "burst", map[string]string{"kustomization.yaml": "images:\n- {name: " + w.registry + "/team/web, newTag: 1.0.0}\n"})
	w.apply(t, application{name: "burst", path: ".", kind: "Kustomize", repoURL: repository.URL(), images: []string{"REG/team/web:1.0.0"},
		annotations: map[string]string{"image-list": "REG/team/web:1.x", "write-back-target": "kustomization"}})
	controller, stop := w.start(t, 2*time.Second)
	for i := range 50 {
		w.push(t, "team/web", fmt.Sprintf("1.%d.0", i+1), day(1))
		if i%2 == 0 {
			controller.ImagePushed(w.registry + "/team/web")
		}
	}
	w.awaitFile(t, repository, gittest.Main, "kustomization.yaml", "images:\n- {name: REG/team/web, newTag: 1.50.0}\n")
	// A controller that stops before the response to its push does not report it.
	if url := programs.Receive(t, w.pushed, "the report of a push"); url != repository.URL() {
		t.Errorf("%s was pushed", url)
	}
	stop()
	// The next change shows that the controller has looked again, without a commit in
	// between.
	w.start(t, quick)
	w.push(t, "team/web", "1.51.0", day(1))
	w.awaitFile(t, repository, gittest.Main, "kustomization.yaml", "images:\n- {name: REG/team/web, newTag: 1.51.0}\n")
	if got := commits(t, repository, gittest.Main); got != "3" {
		t.Errorf("there are %s commits:\n%s", got, repository.Git(t, "log", "--format=%s %b"))
	}
}

// TestRefused: what is not supported is refused by name, and nothing is committed.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.push(t, "team/web", "1.1.0", day(1))
	repository := w.git.Repository(t, "refused", map[string]string{"app/kustomization.yaml": "images: []\n"})
	w.Cluster.Apply(t, w.namespace, `{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: narrow}, spec: {sourceRepos: ["`+repository.URL()+`"], destinations: [{server: "*", namespace: "*"}]}}`)
	cases := []struct {
		name        string
		annotations map[string]string
		project     string
		revision    string
		reason      string
		want        string
	}{
		{name: "method", annotations: map[string]string{"write-back-method": "argocd"}, want: "write-back-method]: the method argocd changes the Application"},
		{name: "no-method", annotations: map[string]string{"write-back-method": ""}, want: "write git"},
		{name: "misspelt", annotations: map[string]string{"web.alow-tags": "any"}, want: "web.alow-tags]: there is no such annotation"},
		{name: "expression", annotations: map[string]string{"web.allow-tags": "regexp:["}, want: "is no regular expression"},
		{name: "script", annotations: map[string]string{"web.pull-secret": "ext:/bin/login"}, want: "pull-secret]: credentials from the environment or a script"},
		{name: "other-secret", annotations: map[string]string{"web.pull-secret": "pullsecret:kube-system/x"}, want: "is in another namespace"},
		{name: "template", annotations: map[string]string{"git-branch": `main:{{printf "%1000000d" 1}}`}, want: "a template of a branch has fields"},
		{name: "registry", project: "narrow", want: "project narrow does not allow the repository oci://" + w.registry},
		{name: "repository", project: "narrow", annotations: map[string]string{"git-repository": "https://git.example.com/other.git"}, want: "does not allow the repository https://git.example.com/other"},
		{name: "outside", annotations: map[string]string{"write-back-target": "kustomization:../../x"}, reason: "ImageUpdateFailed", want: "leaves the repository"},
		{name: "tag", revision: "v1.0.0", reason: "ImageUpdateFailed", want: "has no branch v1.0.0"},
	}
	for _, tt := range cases {
		annotations := map[string]string{"image-list": "web=REG/team/web:1.x", "write-back-target": "kustomization"}
		maps.Copy(annotations, tt.annotations)
		w.apply(t, application{
			name: tt.name, path: "app", kind: "Kustomize", repoURL: repository.URL(), images: []string{"REG/team/web:1.0.0"},
			annotations: annotations, project: tt.project, revision: tt.revision,
		})
	}
	w.start(t, quick)
	for _, tt := range cases {
		w.awaitEvent(t, tt.name, orDefault(tt.reason, "ImageUpdateRefused"), tt.want)
	}
	if got := commits(t, repository, gittest.Main); got != "1" {
		t.Errorf("there are %s commits", got)
	}
}

// TestUnused: an image that no object has is not updated unless it is forced.
func TestUnused(t *testing.T) {
	w := newWorld(t)
	w.push(t, "team/web", "1.1.0", day(1))
	repository := w.git.Repository(t, "unused", map[string]string{"one/kustomization.yaml": "images: []\n", "two/kustomization.yaml": "images: []\n"})
	for name, force := range map[string]string{"one": "", "two": "true"} {
		w.apply(t, application{name: name, path: name, kind: "Kustomize", repoURL: repository.URL(), images: []string{"REG/team/other:1.0.0"},
			annotations: map[string]string{"image-list": "REG/team/web", "write-back-target": "kustomization", "force-update": force}})
	}
	w.start(t, quick)
	w.awaitFile(t, repository, gittest.Main, "two/kustomization.yaml", "images: [{name: '"+w.registry+"/team/web', newTag: 1.1.0}]\n")
	if got := repository.Git(t, "show", "main:one/kustomization.yaml"); got != "images: []" && got != "images: []\n" {
		t.Errorf("the first is %s", got)
	}
}

// TestMessage: the ConfigMap of the Image Updater has the author and the template, with
// labels of the image.
func TestMessage(t *testing.T) {
	w := newWorld(t)
	w.push(t, "team/web", "1.1.0", day(1))
	w.Cluster.Apply(t, w.namespace, `{apiVersion: v1, kind: ConfigMap, metadata: {name: argocd-image-updater-config}, data: {git.user: Robot, git.email: robot@example.com,
  git.commit-message-template: "chore: {{.AppName}}\n\n{{range .AppChanges}}{{.Image}} {{.OldTag}} {{.NewTag}} {{index .Labels \"org.opencontainers.image.revision\"}}{{end}}"}}`)
	repository := w.git.Repository(t, "message", map[string]string{"values.yaml": "image: {tag: 1.0.0}\n"})
	w.apply(t, application{name: "message", path: ".", kind: "Helm", repoURL: repository.URL(), images: []string{"REG/team/web:1.0.0"}, revision: "HEAD",
		annotations: map[string]string{"image-list": "REG/team/web", "write-back-target": "helmvalues:values.yaml"}})
	w.start(t, quick)
	w.awaitFile(t, repository, gittest.Main, "values.yaml", "image: {tag: 1.1.0}\n")
	programs.Eventually(t, func(context.Context) error {
		want := "Robot <robot@example.com>\nchore: message\n\n" + w.registry + "/team/web 1.0.0 1.1.0 rev-1.1.0"
		if got := repository.Git(t, "log", "-1", "--format=%an <%ae>%n%B"); strings.TrimSpace(got) != want {
			return fmt.Errorf("the commit is\n%s\nwant\n%s", got, want)
		}
		return nil
	})
	w.awaitEvent(t, "message", "ImagesUpdated", "from 1.0.0 to 1.1.0")
}
