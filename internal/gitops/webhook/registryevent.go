package webhook

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
)

// registryParser returns the image of an event, with its registry; empty for an event of
// another kind. The query is that of the address to which the event was sent.
type registryParser func(body []byte, query url.Values) (image string, err error)

// registryParsers are the parsers by kind of registry.
func registryParsers() map[Registry]registryParser {
	return map[Registry]registryParser{
		DockerHub: parseDockerHub, GitHubPackage: parseGitHubPackage, Harbor: parseHarbor, Quay: parseQuay,
		AliyunACR: parseAliyun, AzureACR: parseAzure, GoogleArtifact: parseGoogle, CloudEvents: parseCloudEvent,
	}
}

// ParseRegistry returns the image that was pushed, as registry/repository. An event of
// another kind is an empty name. One without a registry or a repository is an error, by
// the pattern of names.
func ParseRegistry(of Registry, body []byte, query url.Values) (string, error) {
	parse := registryParsers()[of]
	if parse == nil {
		return "", errRegistry
	}
	name, err := parse(body, query)
	if name == "" || err != nil {
		return "", err
	}
	if name = strings.ToLower(name); !imagePattern.MatchString(name) {
		return "", errRegistry
	}
	return name, nil
}

// decodeEvent decodes an event. One whose fields have other types names no image.
func decodeEvent(body []byte, into any) error {
	if json.Unmarshal(body, into) != nil {
		return errRegistry
	}
	return nil
}

// named returns the name of an image. One that is missing is an error.
func named(image string) (string, error) {
	if image == "" {
		return "", errRegistry
	}
	return image, nil
}

// parseDockerHub reads an event of Docker Hub, which is the one registry that it is about.
func parseDockerHub(body []byte, _ url.Values) (string, error) {
	var event struct {
		Repository struct {
			Name string `json:"repo_name"`
		} `json:"repository"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	return string(DockerHub) + "/" + event.Repository.Name, nil
}

// parseGitHubPackage reads an event of GitHub's packages. Those of other types, such as
// npm, have the same form.
func parseGitHubPackage(body []byte, _ url.Values) (string, error) {
	var event struct {
		Action  string `json:"action"`
		Package *struct {
			Name        string `json:"name"`
			Namespace   string `json:"namespace"`
			PackageType string `json:"package_type"`
		} `json:"package"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	if event.Package == nil || !strings.EqualFold(event.Package.PackageType, "container") || event.Action != "published" && event.Action != "updated" {
		return "", nil
	}
	return string(GitHubPackage) + "/" + event.Package.Namespace + "/" + event.Package.Name, nil
}

// parseHarbor reads an event of Harbor. All resources of a push are tags of one
// repository, so that the first is enough.
func parseHarbor(body []byte, _ url.Values) (string, error) {
	var event struct {
		Type string `json:"type"`
		Data struct {
			Resources []struct {
				URL string `json:"resource_url"`
			} `json:"resources"`
		} `json:"event_data"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	if event.Type != "PUSH_ARTIFACT" || len(event.Data.Resources) == 0 {
		return "", nil
	}
	return named(withoutTag(event.Data.Resources[0].URL))
}

// parseQuay reads an event of Quay, whose address of the image has the registry: Quay can
// be self-hosted.
func parseQuay(body []byte, _ url.Values) (string, error) {
	var event struct {
		DockerURL string `json:"docker_url"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	return named(event.DockerURL)
}

// parseAliyun reads an event of Alibaba Cloud. It does not name its registry, which is
// that of the region, or the parameter registry_url for instances of an enterprise.
func parseAliyun(body []byte, query url.Values) (string, error) {
	var event struct {
		Repository struct {
			FullName  string `json:"repo_full_name"`
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
			Region    string `json:"region"`
		} `json:"repository"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	of, registry := event.Repository, query.Get("registry_url")
	if registry == "" && of.Region != "" {
		registry = "registry." + of.Region + ".aliyuncs.com"
	}
	if of.FullName == "" && of.Namespace != "" && of.Name != "" {
		of.FullName = of.Namespace + "/" + of.Name
	}
	return registry + "/" + of.FullName, nil
}

// parseAzure reads an event of Azure. Each registry has a host of its own.
func parseAzure(body []byte, _ url.Values) (string, error) {
	var event struct {
		Action string `json:"action"`
		Target struct {
			Repository string `json:"repository"`
		} `json:"target"`
		Request struct {
			Host string `json:"host"`
		} `json:"request"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	if event.Action != "push" {
		return "", nil // also the ping of a new webhook
	}
	return event.Request.Host + "/" + event.Target.Repository, nil
}

// parseGoogle reads an event of Artifact Registry. Pub/Sub sends it as it is, or as the
// data of a message.
func parseGoogle(body []byte, _ url.Values) (string, error) {
	var envelope struct {
		Message *struct {
			Data []byte `json:"data"`
		} `json:"message"`
	}
	if err := decodeEvent(body, &envelope); err != nil {
		return "", err
	}
	if envelope.Message != nil {
		body = envelope.Message.Data
	}
	var event struct {
		Action string `json:"action"`
		Digest string `json:"digest"`
		Tag    string `json:"tag"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	if event.Action != "INSERT" {
		return "", nil
	}
	return named(withoutTag(cmp.Or(event.Digest, event.Tag)))
}

// parseCloudEvent reads an event of ECR, in the form that the documentation of the Image
// Updater has EventBridge make of it. The source has region and account.
func parseCloudEvent(body []byte, _ url.Values) (string, error) {
	var event struct {
		Version string `json:"specversion"`
		Type    string `json:"type"`
		Source  string `json:"source"`
		Data    struct {
			Repository string `json:"repositoryName"`
			Registry   string `json:"registryId"`
		} `json:"data"`
	}
	if err := decodeEvent(body, &event); err != nil {
		return "", err
	}
	if event.Version == "" {
		return "", errRegistry
	}
	if !strings.HasPrefix(event.Type, "com.amazon.ecr.") {
		return "", nil
	}
	// urn:aws:ecr:REGION:ACCOUNT:repository/NAME, or arn:…
	source := strings.SplitN(event.Source, ":", 6)
	if len(source) < 6 || source[2] != "ecr" || source[3] == "" {
		return "", errRegistry
	}
	registry := cmp.Or(event.Data.Registry, source[4]) + ".dkr.ecr." + source[3] + ".amazonaws.com"
	return registry + "/" + cmp.Or(event.Data.Repository, strings.TrimPrefix(source[5], "repository/")), nil
}

// withoutTag removes the tag or digest of a reference.
func withoutTag(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if at := strings.LastIndexByte(reference, ':'); at >= 0 && !strings.Contains(reference[at:], "/") {
		reference = reference[:at]
	}
	return reference
}
