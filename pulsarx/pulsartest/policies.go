package pulsartest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// policies are what the admin routes have set for a namespace or a topic: the JSON of each, by its path below theirs. All are kept
// and given back; doc.go says which are acted on.
type policies map[string]json.RawMessage

// policy is a route of a namespace or a topic that reads, sets and unsets one policy.
type policy struct {
	path    string
	set     string // the method
	unset   string // the path of DELETE; empty where Pulsar knows no way back
	initial string // what GET answers where nothing is set; empty is an empty answer
	example string // a body is JSON of the kind that this is
}

func standing(example string, paths ...string) []policy {
	all := make([]policy, len(paths))
	for i, path := range paths {
		all[i] = policy{path: path, set: http.MethodPost, unset: path, example: example}
	}
	return all
}

// bothPolicies exist on both levels under one path.
var bothPolicies = slices.Concat(
	standing("{}", "retention", "persistence", "publishRate", "dispatchRate", "subscriptionDispatchRate", "replicatorDispatchRate",
		"subscribeRate", "delayedDelivery", "inactiveTopicPolicies", "autoSubscriptionCreation", "entryFilters"),
	standing("0", "messageTTL", "maxSubscriptionsPerTopic", "maxConsumersPerSubscription"),
	[]policy{
		{"subscriptionTypesEnabled", http.MethodPost, "subscriptionTypesEnabled", "[]", "[]"},
		{"schemaValidationEnforced", http.MethodPost, "", "false", "true"},
	},
)

var namespacePolicies = slices.Concat(
	bothPolicies,
	standing("0", "maxProducersPerTopic", "maxConsumersPerTopic", "maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription",
		"subscriptionExpirationTime"),
	standing("true", "deduplication"),
	standing("{}", "autoTopicCreation", "persistence/bookieAffinity"),
	standing(`""`, "antiAffinity"),
	[]policy{
		{"deduplicationSnapshotInterval", http.MethodPost, "", "", "0"},
		{"maxTopicsPerNamespace", http.MethodPost, "maxTopicsPerNamespace", "0", "0"},
		{schemaStrategy, http.MethodPut, "", `"UNDEFINED"`, `""`},
		{"isAllowAutoUpdateSchema", http.MethodPost, "", "true", "true"},
		{"encryptionRequired", http.MethodPost, "", "false", "true"},
		{"allowedClusters", http.MethodPost, "", "[]", "[]"},
		{"replication", http.MethodPost, "", `["` + clusterName + `"]`, "[]"},
		{"compactionThreshold", http.MethodPut, "compactionThreshold", "", "0"},
		{"offloadPolicies", http.MethodPost, "removeOffloadPolicies", "", "{}"},
		{"properties", http.MethodPut, "properties", "{}", "{}"},
	},
)

var topicPolicies = slices.Concat(
	bothPolicies,
	standing("0", "maxProducers", "maxConsumers", "maxUnackedMessagesOnConsumer", "maxUnackedMessagesOnSubscription", "maxMessageSize",
		"compactionThreshold", "deduplicationSnapshotInterval"),
	standing("true", "deduplicationEnabled"),
	standing("{}", "offloadPolicies"),
	standing("[]", "replication"),
	[]policy{{schemaStrategy, http.MethodPut, schemaStrategy, "", `""`}},
)

// policyRoutes are the routes of all policies, and of the quotas and permissions, which are maps of them.
func policyRoutes() map[string]adminFunc {
	routes := map[string]adminFunc{}
	three := func(base string, p policy, read, write, remove adminFunc) {
		routes["GET "+base+p.path] = read
		routes[p.set+" "+base+p.path] = write
		if p.unset != "" {
			routes["DELETE "+base+p.unset] = remove
		} else {
			routes["DELETE "+base+p.path] = adminNoUnset
		}
	}
	add := func(base string, all []policy) {
		for _, p := range all {
			three(base, p, p.read, p.write, p.remove)
		}
		routes["GET "+base+"backlogQuotaMap"] = adminMap("backlogQuotaMap")
		routes["POST "+base+"backlogQuota"] = adminSetQuota
		routes["DELETE "+base+"backlogQuota"] = adminRemoveQuota
		routes["GET "+base+"permissions"] = adminMap("permissions")
		routes["POST "+base+"permissions/{role}"] = adminGrant
		routes["DELETE "+base+"permissions/{role}"] = adminRevoke
	}
	add("/namespaces/{t}/{n}/", namespacePolicies)
	for _, l := range offloadLimits {
		three("/namespaces/{t}/{n}/", l.policy, l.read, l.write, l.remove)
	}
	for _, domain := range domains {
		add("/"+domain+"/{t}/{n}/{topic}/", topicPolicies)
	}
	return routes
}

// policies are those of the namespace or the topic that a route is about.
func (b *Broker) policies(r *adminRequest) (policies, error) {
	ns, err := b.namespace(r)
	if err != nil {
		return nil, err
	}
	if r.topic.full == "" {
		return ns.policies, nil
	}
	if !b.exists(r.topic) && !r.topic.transient() {
		return nil, topicMissing(r.topic)
	}
	p := ns.topics[r.topic.base]
	if p == nil {
		p = policies{}
		ns.topics[r.topic.base] = p
	}
	return p, nil
}

func (p policy) read(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	value := set[p.path]
	if value == nil && r.URL.Query().Get("applied") == "true" && r.topic.full != "" {
		value = b.namespaces[r.topic.namespace].policies[p.path]
	}
	if value == nil {
		value = json.RawMessage(p.initial)
	}
	if len(value) == 0 {
		return nil, nil
	}
	return value, nil
}

func (p policy) write(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	body := bytes.TrimSpace(r.body)
	if value := r.URL.Query().Get(p.path); value != "" { // as the TTL of a topic comes
		body = []byte(value)
	}
	var value bytes.Buffer
	if json.Compact(&value, body) != nil || !p.fits(value.Bytes()) {
		return nil, adminRefuse(http.StatusBadRequest, "The body is no %s", p.path)
	}
	if check := policyChecks[p.path]; check != nil {
		if err := check(r, value.Bytes()); err != nil {
			return nil, err
		}
	}
	p.keep(set, value.Bytes())
	return nil, nil
}

func (p policy) keep(set policies, value []byte) {
	set[p.path] = value
	if p.path == schemaStrategy && !slices.Contains(strategies, readStrategy(value)) {
		delete(set, p.path) // that is how Pulsar takes a name that it does not know
	}
}

func (p policy) fits(value []byte) bool {
	var have, example any
	if json.Unmarshal(value, &have) != nil || json.Unmarshal([]byte(p.example), &example) != nil {
		return false
	}
	return kindOf(have) == kindOf(example)
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	default:
		return "null"
	}
}

func (p policy) remove(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	delete(set, p.path)
	return nil, nil
}

// adminNoUnset refuses as Pulsar does, which takes the path for something else.
func adminNoUnset(_ *Broker, r *adminRequest) (any, error) {
	if r.topic.full == "" {
		return nil, adminRefuse(http.StatusPreconditionFailed, "Invalid bundle range")
	}
	return nil, adminRefuse(http.StatusMethodNotAllowed, "Method Not Allowed")
}

// adminMap answers a policy that is a map, which is there from the start.
func adminMap(path string) adminFunc {
	return func(b *Broker, r *adminRequest) (any, error) {
		set, err := b.policies(r)
		if err != nil {
			return nil, err
		}
		return set.entries(path), nil
	}
}

// entries reads a policy that is a map.
func (p policies) entries(path string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(p[path], &all) // empty where it is not set; what is set is our own
	return all
}

func (p policies) setEntry(path, key string, value []byte) error {
	all := p.entries(path)
	if value == nil {
		delete(all, key)
	} else {
		all[key] = value
	}
	body, err := json.Marshal(all)
	p[path] = body
	return err
}

func quotaType(r *adminRequest) (string, error) {
	switch kind := r.URL.Query().Get("backlogQuotaType"); kind {
	case "":
		return "destination_storage", nil
	case "destination_storage", "message_age":
		return kind, nil
	default:
		return "", adminRefuse(http.StatusNotFound, "No backlog quota of type %s", kind)
	}
}

func adminSetQuota(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	kind, err := quotaType(r)
	if err != nil {
		return nil, err
	}
	if !(policy{example: "{}"}).fits(r.body) {
		return nil, adminRefuse(http.StatusBadRequest, "The body is no backlog quota")
	}
	return nil, set.setEntry("backlogQuotaMap", kind, r.body)
}

func adminRemoveQuota(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	kind, err := quotaType(r)
	if err != nil {
		return nil, err
	}
	return nil, set.setEntry("backlogQuotaMap", kind, nil)
}

type backlogQuota struct {
	Limit  int64  `json:"limitSize"`
	Policy string `json:"policy"`
}

// sizeQuota is the quota of a topic's backlog in bytes: its own, else its namespace's, else none.
func (b *Broker) sizeQuota(name topicName) (q backlogQuota) {
	ns := b.namespaces[name.namespace]
	if ns == nil {
		return q
	}
	for _, set := range []policies{ns.topics[name.base], ns.policies} {
		if value := set.entries("backlogQuotaMap")["destination_storage"]; value != nil {
			_ = json.Unmarshal(value, &q) // what it does not have is not limited
			return q
		}
	}
	return q
}

// adminGrant stores a permission. Nobody is refused for the want of one: clients have no roles here.
func adminGrant(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	var actions []string
	if err := json.Unmarshal(r.body, &actions); err != nil {
		return nil, adminRefuse(http.StatusBadRequest, "The body must be a list of actions")
	}
	return nil, set.setEntry("permissions", r.PathValue("role"), r.body)
}

func adminRevoke(b *Broker, r *adminRequest) (any, error) {
	set, err := b.policies(r)
	if err != nil {
		return nil, err
	}
	if role := r.PathValue("role"); r.topic.full == "" || set.entries("permissions")[role] != nil {
		return nil, set.setEntry("permissions", role, nil)
	}
	return nil, adminRefuse(http.StatusPreconditionFailed, "Permissions are not set at the topic level")
}

// adminNamespace answers all policies of a namespace under the names that they have there.
func adminNamespace(b *Broker, r *adminRequest) (any, error) {
	ns, err := b.namespace(r)
	if err != nil {
		return nil, err
	}
	topics := map[string]any{}
	for name, set := range ns.topics {
		if granted := set.entries("permissions"); len(granted) > 0 {
			topics[name] = granted
		}
	}
	all := map[string]any{
		"auth_policies": map[string]any{
			"namespace_auth": ns.policies.entries("permissions"), "destination_auth": topics, "subscription_auth_roles": struct{}{},
		},
		"backlog_quota_map": ns.policies.entries("backlogQuotaMap"),
		"deleted":           false, "properties": struct{}{},
		"offload_threshold": -1, "offload_threshold_in_seconds": -1, // what is set is in offload_policies
	}
	for _, p := range namespacePolicies {
		field, named := policyFields[p.path]
		value := ns.policies[p.path]
		if value == nil {
			value = json.RawMessage(p.initial)
		}
		if named && len(value) > 0 {
			all[field] = value
		}
	}
	return all, nil
}

// initialPolicies are what the body that makes a namespace has, under the names of its answer. Other fields are ignored.
func (r *adminRequest) initialPolicies() (policies, error) {
	var fields map[string]json.RawMessage
	var quotas struct {
		Map map[string]map[string]any `json:"backlog_quota_map"`
	}
	if len(r.body) > 0 && (json.Unmarshal(r.body, &fields) != nil || json.Unmarshal(r.body, &quotas) != nil) {
		return nil, adminRefuse(http.StatusBadRequest, "The body must be policies")
	}
	set := policies{}
	for _, p := range namespacePolicies {
		field, named := policyFields[p.path]
		value := fields[field]
		if !named || len(value) == 0 || string(value) == "null" || string(value) == "[]" {
			continue
		}
		if !p.fits(value) {
			return nil, adminRefuse(http.StatusBadRequest, "%s is not valid", field)
		}
		if check := policyChecks[p.path]; check != nil {
			if err := check(r, value); err != nil {
				return nil, err
			}
		}
		p.keep(set, value)
	}
	if len(quotas.Map) > 0 {
		set["backlogQuotaMap"] = fields["backlog_quota_map"]
	}
	return set, nil
}

// policyFields are the names that a namespace's policies have in its own answer, as far as they are not settings of hardware.
var policyFields = map[string]string{
	"retention": "retention_policies", "messageTTL": "message_ttl_in_seconds", "persistence": "persistence",
	"deduplication": "deduplicationEnabled", "autoTopicCreation": "autoTopicCreationOverride",
	"autoSubscriptionCreation": "autoSubscriptionCreationOverride", "delayedDelivery": "delayed_delivery_policies",
	"inactiveTopicPolicies": "inactive_topic_policies", "subscriptionTypesEnabled": "subscription_types_enabled",
	"schemaValidationEnforced": "schema_validation_enforced", schemaStrategy: "schema_compatibility_strategy",
	"isAllowAutoUpdateSchema": "is_allow_auto_update_schema", "encryptionRequired": "encryption_required",
	"allowedClusters": "allowed_clusters", "replication": "replication_clusters", "properties": "properties",
	"maxProducersPerTopic": "max_producers_per_topic", "maxConsumersPerTopic": "max_consumers_per_topic",
	"maxSubscriptionsPerTopic": "max_subscriptions_per_topic", "maxConsumersPerSubscription": "max_consumers_per_subscription",
	"maxUnackedMessagesPerConsumer":     "max_unacked_messages_per_consumer",
	"maxUnackedMessagesPerSubscription": "max_unacked_messages_per_subscription",
	"compactionThreshold":               "compaction_threshold", "offloadPolicies": "offload_policies",
}

func adminIsolation(b *Broker, r *adminRequest) (any, error) {
	if r.PathValue("c") != clusterName {
		return nil, adminRefuse(http.StatusNotFound, "Cluster %s does not exist.", r.PathValue("c"))
	}
	name := r.PathValue("name")
	switch {
	case r.Method == http.MethodPost && !(policy{example: "{}"}).fits(r.body):
		return nil, adminRefuse(http.StatusBadRequest, "The body is no isolation policy")
	case r.Method == http.MethodPost:
		b.isolation[name] = r.body
		return nil, nil
	case r.Method == http.MethodDelete:
		delete(b.isolation, name)
		return nil, nil
	case name == "":
		return maps.Clone(b.isolation), nil
	case b.isolation[name] == nil:
		return nil, adminRefuse(http.StatusNotFound, "Namespace isolation policy %s does not exist", name)
	default:
		return b.isolation[name], nil
	}
}

// setting is the JSON of a policy that applies to a topic: its own, else its namespace's; nil where neither is set.
func (b *Broker) setting(name topicName, ofTopic, ofNamespace string) json.RawMessage {
	ns := b.namespaces[name.namespace]
	if ns == nil {
		return nil
	}
	if value := ns.topics[name.base][ofTopic]; value != nil {
		return value
	}
	return ns.policies[ofNamespace]
}

// on reads a setting that is true or false.
func (b *Broker) on(name topicName, ofTopic, ofNamespace string, otherwise bool) bool {
	if value := b.setting(name, ofTopic, ofNamespace); value != nil {
		return string(value) == "true"
	}
	return otherwise
}

// limit reads a setting that is a number, of which 0 sets no limit.
func (b *Broker) limit(name topicName, ofTopic, ofNamespace string) (n int, ok bool) {
	n, err := strconv.Atoi(string(b.setting(name, ofTopic, ofNamespace)))
	return n, err == nil && n > 0
}

// autoCreation is what happens to a topic that does not exist when a client uses it.
func (b *Broker) autoCreation(name topicName) (allowed bool, partitions int) {
	var p struct {
		Allow      bool   `json:"allowAutoTopicCreation"`
		Type       string `json:"topicType"`
		Partitions int    `json:"defaultNumPartitions"`
	}
	set := b.namespaces[name.namespace].policies["autoTopicCreation"]
	if set == nil || json.Unmarshal(set, &p) != nil {
		return true, 0
	}
	if p.Type != "partitioned" || name.partition >= 0 || name.transient() {
		return p.Allow, 0
	}
	return p.Allow, min(max(p.Partitions, 1), maxPartitions)
}

// autoSubscribes tells whether a consumer may make its subscription.
func (b *Broker) autoSubscribes(name topicName) bool {
	value := b.setting(name, "autoSubscriptionCreation", "autoSubscriptionCreation")
	return value == nil || !strings.Contains(string(value), `"allowAutoSubscriptionCreation":false`)
}
