-- What the database of a run holds, version 1. Times are ns since the epoch, ids lower-case hex, attributes JSON objects.
-- What nobody told is NULL, never 0. docs/local.md tells users of these tables: change both.

-- schema_version, run_id, created, and what else is of the whole file.
CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR);

-- How far the journal has been taken, in the same transaction as its rows.
CREATE TABLE journal_read (segment BIGINT PRIMARY KEY, "offset" BIGINT NOT NULL);

-- Who sent: a process of an attempt of the run.
CREATE TABLE processes (
    process INTEGER PRIMARY KEY,
    instance VARCHAR NOT NULL,          -- service.instance.id
    host VARCHAR,
    pid BIGINT,
    attempt INTEGER,
    role VARCHAR,
    rank INTEGER,
    replica INTEGER,
    attributes JSON NOT NULL,           -- of its resource
    first_seen BIGINT,
    last_seen BIGINT
);

-- A metric with its attributes, of one process.
CREATE TABLE series (
    series INTEGER PRIMARY KEY,
    metric VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,              -- gauge, sum, histogram, summary
    monotonic BOOLEAN NOT NULL,
    delta BOOLEAN NOT NULL,
    scope VARCHAR NOT NULL,
    process INTEGER NOT NULL,
    key VARCHAR,                        -- verl.metric.key
    attributes JSON NOT NULL
);

-- Numbers; NaN and infinities stay what they are.
CREATE TABLE points (series INTEGER NOT NULL, time BIGINT NOT NULL, value DOUBLE NOT NULL);

CREATE TABLE histograms (
    series INTEGER NOT NULL,
    time BIGINT NOT NULL,
    start BIGINT,
    count UBIGINT NOT NULL,
    sum DOUBLE,
    min DOUBLE,
    max DOUBLE,
    bounds DOUBLE[] NOT NULL,
    counts UBIGINT[] NOT NULL           -- one more than bounds
);

-- What verl's Tracking.log was given, in the metric's unit: points with verl.metric.key at the time of a step's mark.
CREATE TABLE scalars (
    step INTEGER NOT NULL,
    key VARCHAR NOT NULL,
    value DOUBLE NOT NULL,
    time BIGINT NOT NULL,
    attempt INTEGER,
    process INTEGER NOT NULL
);

CREATE TABLE spans (
    trace VARCHAR NOT NULL,
    span VARCHAR NOT NULL,
    parent VARCHAR,                     -- NULL for a root
    name VARCHAR NOT NULL,
    kind TINYINT NOT NULL,              -- as OTLP numbers them
    start BIGINT NOT NULL,
    "end" BIGINT NOT NULL,
    error BOOLEAN NOT NULL,
    message VARCHAR,                    -- of its status
    scope VARCHAR NOT NULL,
    process INTEGER NOT NULL,
    step INTEGER,                       -- these seven are its attributes of that name
    phase VARCHAR,
    role VARCHAR,
    rank INTEGER,
    replica INTEGER,
    lane VARCHAR,
    validation BOOLEAN,
    attributes JSON NOT NULL,
    links JSON,                         -- [{trace, span, attributes}]
    events JSON                         -- [{time, name, attributes}]
);

-- A row for each `invoke_agent` span, which is in spans, too.
CREATE TABLE trajectories (
    trace VARCHAR NOT NULL,
    span VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    start BIGINT NOT NULL,
    "end" BIGINT NOT NULL,
    process INTEGER NOT NULL,
    step INTEGER,
    validation BOOLEAN,
    uid VARCHAR,
    session INTEGER,
    outcome VARCHAR,
    reward DOUBLE,
    prompt_tokens INTEGER,
    response_tokens INTEGER,
    generated_tokens INTEGER,
    turns INTEGER,
    model_calls INTEGER,
    tool_calls INTEGER,
    stop_reason VARCHAR,
    weights_oldest INTEGER,
    weights_newest INTEGER,
    parts JSON                          -- parts of the reward by name
);

-- Log records; those of verl-otel have a name.
CREATE TABLE events (
    time BIGINT NOT NULL,
    name VARCHAR,
    severity TINYINT,
    body VARCHAR,
    trace VARCHAR,
    span VARCHAR,
    process INTEGER NOT NULL,
    attributes JSON NOT NULL
);
