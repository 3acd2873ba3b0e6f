package node

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/devcluster/must"
)

func number(n int32) *int32 { return &n }

// The directory has the program and the files that the volumes list, and nothing of an earlier start.
func TestContainerRoot(t *testing.T) {
	yes := true
	secret := func(items ...corev1.KeyToPath) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "pair", Items: items, DefaultMode: number(0o440)}}
	}
	config := func(name string, optional *bool, items ...corev1.KeyToPath) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items, Optional: optional,
		}}
	}
	at := func(path string) corev1.VolumeMount { return corev1.VolumeMount{Name: "v", MountPath: path} }
	key := func(key, path string, mode *int32) corev1.KeyToPath {
		return corev1.KeyToPath{Key: key, Path: path, Mode: mode}
	}
	for name, test := range map[string]struct {
		volume corev1.VolumeSource
		mount  corev1.VolumeMount
		want   map[string]string // mode and content by path
		fails  string
	}{
		"all keys of a Secret":    {secret(), at("/etc/tls"), map[string]string{"etc/tls/tls.crt": "-r--r----- certificate", "etc/tls/tls.key": "-r--r----- key"}, ""},
		"items":                   {secret(key("tls.key", "private/k", number(0o400))), at("/etc/tls/"), map[string]string{"etc/tls/private/k": "-r-------- key"}, ""},
		"item that is missing":    {secret(key("ca.crt", "ca", nil)), at("/etc/tls"), nil, `Secret "pair" has no key "ca.crt"`},
		"ConfigMap":               {config("dns", nil), at("/root"), map[string]string{"root/Corefile": "-rw-r--r-- whoami"}, ""},
		"ConfigMap that is gone":  {config("none", nil), at("/root"), nil, "not found"},
		"optional ConfigMap":      {config("none", &yes), at("/root"), map[string]string{}, ""},
		"optional item":           {config("dns", &yes, key("none", "x", nil)), at("/root"), map[string]string{}, ""},
		"emptyDir":                {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, at("/tmp"), map[string]string{}, ""},
		"path with dots":          {config("dns", nil), at("/../../root"), map[string]string{"root/Corefile": "-rw-r--r-- whoami"}, ""},
		"item outside":            {config("dns", nil, key("Corefile", "../../../x", nil)), at("/root"), nil, "escapes"},
		"root":                    {config("dns", nil), at("/"), nil, "mounted at /"},
		"over the program":        {config("dns", nil), at("/program"), nil, "exists"},
		"subPath":                 {config("dns", nil), corev1.VolumeMount{Name: "v", MountPath: "/x", SubPath: "Corefile"}, nil, "subPath"},
		"subPath with a variable": {config("dns", nil), corev1.VolumeMount{Name: "v", MountPath: "/x", SubPathExpr: "$(A)"}, nil, "subPath"},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "program")
			must.Do(t, os.WriteFile(program, []byte("code"), 0o755))
			pod := testPod()
			pod.Spec.Volumes = []corev1.Volume{{Name: "other", VolumeSource: config("none", nil)}, {Name: "v", VolumeSource: test.volume}}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{test.mount}
			root := containerRoot{dir: filepath.Join(t.TempDir(), "root"), pod: pod, container: &pod.Spec.Containers[0], source: memoryConfig{
				configMaps: map[string]map[string]string{"dns": {"Corefile": "whoami"}},
				secrets:    map[string]map[string][]byte{"pair": {"tls.crt": []byte("certificate"), "tls.key": []byte("key")}},
			}}
			must.Do(t, os.MkdirAll(root.dir, 0o755))
			must.Do(t, os.WriteFile(filepath.Join(root.dir, "earlier"), nil, 0o644))
			executable, err := root.build(t.Context(), program)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %v, want an error with %q", err, test.fails)
				}
				return
			}
			must.Do(t, err)
			test.want["program"] = "-rwxr-xr-x code"
			if found := filesIn(t, root.dir); executable != "/program" || !maps.Equal(found, test.want) {
				t.Errorf("%s is in %v, want /program in %v", executable, found, test.want)
			}
		})
	}
}

// filesIn returns mode and content of all files in a directory.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info := must.Get(entry.Info())(t)
		name := must.Get(filepath.Rel(dir, path))(t)
		found[name] = info.Mode().String() + " " + string(must.Get(os.ReadFile(path))(t))
		return nil
	}))
	return found
}

// A program on another file system is copied, and never over a file that is there.
func TestCopyAcrossFileSystems(t *testing.T) {
	other, err := os.MkdirTemp("/dev/shm", "slipway-node-test")
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(other) })
	from, to := filepath.Join(other, "program"), filepath.Join(t.TempDir(), "program")
	must.Do(t, os.WriteFile(from, []byte("code"), 0o755))
	must.Do(t, linkOrCopy(from, to))
	if found := filesIn(t, filepath.Dir(to)); found["program"] != "-rwxr-xr-x code" {
		t.Errorf("the copy is %v", found)
	}
	if err := linkOrCopy(from, to); err == nil {
		t.Error("a file is replaced")
	}
}
