BEGIN TRANSACTION;
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint TEXT NOT NULL,
    project TEXT NOT NULL,
    at REAL NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL
);
INSERT INTO "audit" VALUES(1,'127.0.0.1:18471','demo-project',1.79545800212124371532e+09,'budget','weekly','The user set the budget weekly to $500.00 per week (stop).','{"amount": 500.0, "unit": "usd", "period": "week", "resets_on": "monday", "resets_at": "00:00", "action": "stop"}');
INSERT INTO "audit" VALUES(2,'127.0.0.1:18471','demo-project',1.7954580042016465664e+09,'budget','hours','The user set the budget hours to 40.00 hours per month (stop).','{"amount": 40.0, "unit": "hours", "period": "month", "resets_on": null, "resets_at": "00:00", "action": "stop"}');
INSERT INTO "audit" VALUES(3,'127.0.0.1:18471','demo-project',1.79545800500289463993e+09,'grant','trc','The user entered the grant: 96 chips, from 2026-11-01 to 2027-01-29.','{"kind": "trc", "starts_on": "2026-11-01", "ends_on": "2027-01-29", "rows": [{"chips": 32, "generation": "v4", "spot": true, "zone": "us-central2-b", "device": null}, {"chips": 64, "generation": "v5e", "spot": true, "zone": "us-central1-a", "device": null}], "usd": null}');
INSERT INTO "audit" VALUES(4,'127.0.0.1:18471','demo-project',1.7954580091605391502e+09,'brakes','projects/demo-project/locations/us-central1-a/nodes/alpha','The node ends idle after 5400 s, unattended after 7200 s, session 36000 s: stop.','{}');
INSERT INTO "audit" VALUES(5,'127.0.0.1:18471','demo-project',1.79545801402568936345e+09,'keep','projects/demo-project/locations/us-central1-a/nodes/alpha','The user wants to keep the node.','{"until": 1795461611.5578282, "while_busy": false}');
INSERT INTO "audit" VALUES(6,'127.0.0.1:18471','demo-project',1.79545801537875461583e+09,'recover-on','projects/demo-project/locations/us-central1-a/nodes/alpha','alpha is made again when the cloud takes it away, 3 more times at most.','{"attempts": 0, "max_attempts": 3, "max_usd": null}');
INSERT INTO "audit" VALUES(7,'127.0.0.1:18471','demo-project',1.7954580481783165932e+09,'search','gamma','The user looks for a node.','{"search_id": "7e6381ad69bc49a6"}');
INSERT INTO "audit" VALUES(8,'127.0.0.1:18471','demo-project',1.79545804818281650545e+09,'create','projects/demo-project/locations/us-central1-a/nodes/gamma','Trying v5litepod-4 in us-central1-a.','{"search_id": "7e6381ad69bc49a6"}');
CREATE TABLE documents (
    endpoint TEXT NOT NULL,
    project TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (endpoint, project, kind, name)
);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','budget','weekly','{"amount": 500.0, "unit": "usd", "period": "week", "resets_on": "monday", "resets_at": "00:00", "action": "stop"}',1.79545800212124371532e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','budget','hours','{"amount": 40.0, "unit": "hours", "period": "month", "resets_on": null, "resets_at": "00:00", "action": "stop"}',1.7954580042016465664e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','grant','trc','{"kind": "trc", "starts_on": "2026-11-01", "ends_on": "2027-01-29", "rows": [{"chips": 32, "generation": "v4", "spot": true, "zone": "us-central2-b", "device": null}, {"chips": 64, "generation": "v5e", "spot": true, "zone": "us-central1-a", "device": null}], "usd": null}',1.79545800500289463993e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','brakes','projects/demo-project/locations/us-central1-a/nodes/alpha','{"idle_after_s": 5400.0, "unattended_after_s": 7200.0, "session_s": 36000.0, "deadline_at": null, "action": "stop", "uid": "821407487961289608"}',1.7954580091605391502e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','human','projects/demo-project/locations/us-central1-a/nodes/alpha','{"uid": "821407487961289608"}',1.79545800912582325932e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','keep','projects/demo-project/locations/us-central1-a/nodes/alpha','{"until": 1795461611.5578282, "while_busy": false, "uid": "821407487961289608"}',1.79545801402568936345e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','recovery','projects/demo-project/locations/us-central1-a/nodes/alpha','{"asked_at": 0.0, "attempts": 0, "choice_id": "21d627d3be13", "chosen_at": 1795458015.3787546, "chosen_at_of_cloud": 1795458015.3787546, "is_on": true, "is_queued": false, "max_attempts": 3, "max_usd": null, "message": "alpha is made again when the cloud takes it away, 3 more times at most.", "owner": "", "phase": "watching", "retry_at": 0.0, "since": 1795458015.3787546, "spec": {"accelerator_type": "v5litepod-8", "internal_ips": false, "labels": {}, "metadata": {"ssh-keys": "root:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID9uUSiSTClQ9JQOu0+5/TnImcaRKz146rGgChcBXIj7 jupyter-tpu"}, "name": "projects/demo-project/locations/us-central1-a/nodes/alpha", "preemptible": false, "reserved": false, "runtime_version": "v2-alpha-tpuv5-lite", "spot": false}, "uid": "821407487961289608", "was_ready": true}',1.79545801537875461583e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','search','7e6381ad69bc49a6','{"search_id": "7e6381ad69bc49a6", "project": "demo-project", "node_id": "gamma", "candidates": [{"zone": "us-central1-a", "accelerator_type": "v5litepod-4", "runtime_version": "v2-alpha-tpuv5-lite", "spot": false, "preemptible": false, "reserved": false, "internal_ips": false}], "until": 1795458108.1698527, "phase": "found", "message": "v5litepod-4 in us-central1-a is READY.", "tries": [{"index": 0, "at": 1795458048.1819782, "outcome": "won", "intent_id": "c00e42ae83bd242f", "message": "The node is READY.", "raw": "", "is_clean": true, "was_interrupted": false, "deleted_at": 0.0}], "tried": 1, "round": 0, "position": 1, "next_at": 0.0, "hopeless": [], "stop": "", "accept_unknown_price": false, "is_cancelled": false, "node_name": "projects/demo-project/locations/us-central1-a/nodes/gamma", "created_at": 1795458048.1698527, "updated_at": 1795458058.2831326, "owner": ""}',1.79545805828313255305e+09);
INSERT INTO "documents" VALUES('127.0.0.1:18471','demo-project','human','projects/demo-project/locations/us-central1-a/nodes/gamma','{"uid": "1244948612796756383"}',1.79545806257608604435e+09);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    intent_id TEXT NOT NULL REFERENCES intents ON DELETE CASCADE,
    at REAL NOT NULL,
    phase TEXT NOT NULL,
    message TEXT NOT NULL,
    error_code TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,'3270d4ee73334560',1.79545799031094408036e+09,'requested','Written down.','');
INSERT INTO "events" VALUES(2,'3270d4ee73334560',1.79545799031981730456e+09,'asking','Asking for the node.','');
INSERT INTO "events" VALUES(3,'3270d4ee73334560',1.79545799032330656054e+09,'provisioning','The cloud is making the node.','');
INSERT INTO "events" VALUES(4,'3270d4ee73334560',1.79545799132755398751e+09,'provisioning','The node is CREATING.','');
INSERT INTO "events" VALUES(5,'3270d4ee73334560',1.79545799132755398751e+09,'provisioning','The node is CREATING.','');
INSERT INTO "events" VALUES(6,'3270d4ee73334560',1.79545799938652276997e+09,'booting','The node is READY; its workers are booting.','');
INSERT INTO "events" VALUES(7,'3270d4ee73334560',1.79545800039784646034e+09,'ready','The node is ready.','');
INSERT INTO "events" VALUES(8,'9dcbd8cfdda3722b',1.79545801700355625151e+09,'requested','Written down.','');
INSERT INTO "events" VALUES(9,'9dcbd8cfdda3722b',1.79545801701309227938e+09,'asking','Asking for the node.','');
INSERT INTO "events" VALUES(10,'9dcbd8cfdda3722b',1.79545801701658630372e+09,'provisioning','The cloud is making the node.','');
INSERT INTO "events" VALUES(11,'9dcbd8cfdda3722b',1.79545801802106404308e+09,'provisioning','The node is CREATING.','');
INSERT INTO "events" VALUES(12,'9dcbd8cfdda3722b',1.79545801802106404308e+09,'provisioning','The node is CREATING.','');
INSERT INTO "events" VALUES(13,'9dcbd8cfdda3722b',1.79545802646235275268e+09,'booting','The node is READY; its workers are booting.','');
INSERT INTO "events" VALUES(14,'9dcbd8cfdda3722b',1.79545802747229909894e+09,'ready','The node is ready.','');
INSERT INTO "events" VALUES(15,'4740704d8bf245db',1.79545802988832092286e+09,'requested','Written down.','');
INSERT INTO "events" VALUES(16,'4740704d8bf245db',1.7954580299002192021e+09,'asking','Asking to stop the node.','');
INSERT INTO "events" VALUES(17,'4740704d8bf245db',1.7954580299055883884e+09,'stopping','The node is STOPPING.','');
INSERT INTO "events" VALUES(18,'4740704d8bf245db',1.7954580299055883884e+09,'stopping','The node is STOPPING.','');
INSERT INTO "events" VALUES(19,'4740704d8bf245db',1.7954580329266109466e+09,'stopped','The node beta exists and is STOPPED: only its disk is billed.','');
INSERT INTO "events" VALUES(20,'c00e42ae83bd242f',1.79545804818326163289e+09,'requested','Written down.','');
INSERT INTO "events" VALUES(21,'c00e42ae83bd242f',1.7954580481950216293e+09,'asking','Asking for the node.','');
INSERT INTO "events" VALUES(22,'c00e42ae83bd242f',1.79545804819966673846e+09,'provisioning','The cloud is making the node.','');
INSERT INTO "events" VALUES(23,'c00e42ae83bd242f',1.79545804920572161676e+09,'provisioning','The node is CREATING.','');
INSERT INTO "events" VALUES(24,'c00e42ae83bd242f',1.79545804920572161676e+09,'provisioning','The node is CREATING.','');
INSERT INTO "events" VALUES(25,'c00e42ae83bd242f',1.79545805726214861876e+09,'booting','The node is READY; its workers are booting.','');
INSERT INTO "events" VALUES(26,'c00e42ae83bd242f',1.79545805827490925787e+09,'ready','The node is ready.','');
CREATE TABLE intents (
    intent_id TEXT PRIMARY KEY,
    endpoint TEXT NOT NULL,
    node_name TEXT NOT NULL,
    verb TEXT NOT NULL,
    settled INTEGER NOT NULL,
    dismissed INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    body TEXT NOT NULL
);
INSERT INTO "intents" VALUES('3270d4ee73334560','127.0.0.1:18471','projects/demo-project/locations/us-central1-a/nodes/alpha','create',1,0,'19592:1795457988:0',1.79545799031094408036e+09,1.79545800039784646034e+09,'{"intent_id": "3270d4ee73334560", "verb": "create", "node_name": "projects/demo-project/locations/us-central1-a/nodes/alpha", "endpoint": "127.0.0.1:18471", "zone": "us-central1-a", "node_id": "alpha", "spec": {"name": "projects/demo-project/locations/us-central1-a/nodes/alpha", "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite", "spot": false, "preemptible": false, "reserved": false, "internal_ips": false, "labels": {"jupyter-tpu-intent": "3270d4ee73334560"}, "metadata": {"ssh-keys": "root:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID9uUSiSTClQ9JQOu0+5/TnImcaRKz146rGgChcBXIj7 jupyter-tpu"}}, "phase": "ready", "message": "The node is ready.", "error": null, "settled": true, "created_at": 1795457990.310944, "updated_at": 1795458000.3978465, "owner": "19592:1795457988:0", "operation": "", "asked_at": 1795457990.3198173, "phase_since": 1795458000.3978465, "missing_since": 0.0, "cause": null, "may_appear": false}');
INSERT INTO "intents" VALUES('9dcbd8cfdda3722b','127.0.0.1:18471','projects/demo-project/locations/us-central1-a/nodes/beta','create',1,0,'20223:1795458015:0',1.79545801700355625151e+09,1.79545802747229909894e+09,'{"intent_id": "9dcbd8cfdda3722b", "verb": "create", "node_name": "projects/demo-project/locations/us-central1-a/nodes/beta", "endpoint": "127.0.0.1:18471", "zone": "us-central1-a", "node_id": "beta", "spec": {"name": "projects/demo-project/locations/us-central1-a/nodes/beta", "accelerator_type": "v5litepod-4", "runtime_version": "v2-alpha-tpuv5-lite", "spot": false, "preemptible": false, "reserved": false, "internal_ips": false, "labels": {"jupyter-tpu-intent": "9dcbd8cfdda3722b"}, "metadata": {"ssh-keys": "root:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID9uUSiSTClQ9JQOu0+5/TnImcaRKz146rGgChcBXIj7 jupyter-tpu"}}, "phase": "ready", "message": "The node is ready.", "error": null, "settled": true, "created_at": 1795458017.0035563, "updated_at": 1795458027.472299, "owner": "20223:1795458015:0", "operation": "", "asked_at": 1795458017.0130923, "phase_since": 1795458027.472299, "missing_since": 0.0, "cause": null, "may_appear": false}');
INSERT INTO "intents" VALUES('4740704d8bf245db','127.0.0.1:18471','projects/demo-project/locations/us-central1-a/nodes/beta','stop',1,0,'20346:1795458027:0',1.79545802988832092286e+09,1.7954580329266109466e+09,'{"intent_id": "4740704d8bf245db", "verb": "stop", "node_name": "projects/demo-project/locations/us-central1-a/nodes/beta", "endpoint": "127.0.0.1:18471", "zone": "us-central1-a", "node_id": "beta", "spec": null, "phase": "stopped", "message": "The node beta exists and is STOPPED: only its disk is billed.", "error": null, "settled": true, "created_at": 1795458029.888321, "updated_at": 1795458032.926611, "owner": "20346:1795458027:0", "operation": "", "asked_at": 1795458029.9002192, "phase_since": 1795458032.926611, "missing_since": 0.0, "cause": null, "may_appear": false}');
INSERT INTO "intents" VALUES('c00e42ae83bd242f','127.0.0.1:18471','projects/demo-project/locations/us-central1-a/nodes/gamma','create',1,0,'20970:1795458046:0',1.79545804818326163289e+09,1.79545805827490925787e+09,'{"intent_id": "c00e42ae83bd242f", "verb": "create", "node_name": "projects/demo-project/locations/us-central1-a/nodes/gamma", "endpoint": "127.0.0.1:18471", "zone": "us-central1-a", "node_id": "gamma", "spec": {"name": "projects/demo-project/locations/us-central1-a/nodes/gamma", "accelerator_type": "v5litepod-4", "runtime_version": "v2-alpha-tpuv5-lite", "spot": false, "preemptible": false, "reserved": false, "internal_ips": false, "labels": {"jupyter-tpu-search": "7e6381ad69bc49a6", "jupyter-tpu-intent": "c00e42ae83bd242f"}, "metadata": {"ssh-keys": "root:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID9uUSiSTClQ9JQOu0+5/TnImcaRKz146rGgChcBXIj7 jupyter-tpu"}}, "phase": "ready", "message": "The node is ready.", "error": null, "settled": true, "created_at": 1795458048.1832616, "updated_at": 1795458058.2749093, "owner": "20970:1795458046:0", "operation": "", "asked_at": 1795458048.1950216, "phase_since": 1795458058.2749093, "missing_since": 0.0, "cause": null, "may_appear": false}');
CREATE TABLE spans (
    endpoint TEXT NOT NULL,
    node_name TEXT NOT NULL,
    uid TEXT NOT NULL,
    began_at REAL NOT NULL,
    ended_at REAL NOT NULL,
    is_open INTEGER NOT NULL,
    usd_per_hour REAL,
    body TEXT NOT NULL
);
INSERT INTO "spans" VALUES('127.0.0.1:18471','projects/demo-project/locations/us-central1-a/nodes/alpha','821407487961289608',1.79545799938651776312e+09,1.79545808790280461307e+09,1,9.6,'{"accelerator_type": "v5litepod-8", "spot": false, "unwatched_s": 0.0, "unwatched_after_s": 0.0, "price_source": "list 2025", "provisioning": "on-demand"}');
INSERT INTO "spans" VALUES('127.0.0.1:18471','projects/demo-project/locations/us-central1-a/nodes/beta','1178861134893305975',1.79545802646234655382e+09,1.7954580298889245987e+09,0,4.8,'{"accelerator_type": "v5litepod-4", "spot": false, "unwatched_s": 1.0228803157806396, "unwatched_after_s": 1.0228803157806396, "price_source": "list 2025", "provisioning": "on-demand", "gone_at": 1795458030.911805}');
INSERT INTO "spans" VALUES('127.0.0.1:18471','projects/demo-project/locations/us-central1-a/nodes/gamma','1244948612796756383',1.79545805726214241981e+09,1.79545808790280461307e+09,1,4.8,'{"accelerator_type": "v5litepod-4", "spot": false, "unwatched_s": 0.0, "unwatched_after_s": 0.0, "price_source": "list 2025", "provisioning": "on-demand"}');
CREATE UNIQUE INDEX one_open_wish ON intents (endpoint, node_name, verb) WHERE settled = 0;
CREATE UNIQUE INDEX one_open_span ON spans (endpoint, node_name) WHERE is_open = 1;
CREATE INDEX spans_by_time ON spans (endpoint, ended_at);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE INDEX whole_documents ON documents (endpoint, project, kind, name, body, updated_at);
CREATE INDEX whole_spans ON spans (endpoint, node_name, uid, began_at, ended_at, is_open, usd_per_hour, body);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',26);
INSERT INTO "sqlite_sequence" VALUES('audit',8);
COMMIT;
PRAGMA user_version = 4;
