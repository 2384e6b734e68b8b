// The story of npm's etcd3. It is run against Stele and against etcd, and the lines it prints have
// to be the same: they hold neither times nor ids nor revisions.
'use strict';
const fs = require('fs');
const path = require('path');
const { once } = require('events');
const { createInterface } = require('readline');
const { Etcd3 } = require('etcd3');

const [http, https, pki] = process.argv.slice(2);
const PASSWORD = 'a secret';
const LIMIT_MS = 120_000;

const answers = createInterface({ input: process.stdin });
const tell = (step, ...outcome) => console.log(`${step}:`, JSON.stringify(outcome));
const sleep = ms => new Promise(done => setTimeout(done, ms));

// What the call, which has to be refused, is refused with.
async function refused(call) {
  let answer;
  try {
    answer = await call;
  } catch (error) {
    return `${error.constructor.name}: ${error.message}`;
  }
  throw new Error(`it was not refused: ${JSON.stringify(answer)}`);
}

// Returns when the server was killed and serves again.
async function restart() {
  console.log('restart');
  await once(answers, 'line');
}

// Repeats what fails while the server comes back.
async function until(call) {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      await sleep(50);
    }
  }
}

async function kv(client) {
  for (let i = 0; i < 5; i++) await client.put(`list/${i}`).value(9 - i);
  const previous = await client.put('list/0').value('again').getPrevious();
  const read = await client.get('list/0').exec();
  tell('kv', read.kvs[0].value.toString(), read.kvs[0].version, previous.value.toString(), await client.get('nothing'));
  const list = () => client.getAll().prefix('list/');
  const sorted = await list().sort('Value', 'Descend').limit(3).exec();
  tell('kv list', await list().strings(), sorted.kvs.map(kv => kv.key.toString()), sorted.more, sorted.count);
  tell('kv touched', (await client.put('list/1').touch()) && (await client.get('list/1')));
  tell('kv ignored lease', await refused(client.put('absent').value('x').ignoreLease().exec()));
  const gone = await client.delete().prefix('list/').getPrevious();
  tell('kv deleted', gone.length, (await client.delete().key('list/0')).deleted, await client.getAll().count());
  tell('kv future', await refused(client.get('a').revision(1_000_000).exec()));
}

async function txn(client) {
  await client.put('txn').value('one');
  const swap = () =>
    client
      .if('txn', 'Value', '==', 'one')
      .and('absent', 'Create', '==', 0)
      .then(client.put('txn').value('two'), client.get('txn'))
      .else(client.get('txn'), client.delete().key('txn'))
      .commit();
  for (const done of [await swap(), await swap()]) {
    tell('txn', done.succeeded, done.responses.map(response => response.response));
  }
  const twice = client.if('txn', 'Version', '==', 0);
  tell('txn refused', await refused(twice.then(client.put('same').value(1), client.put('same').value(2)).commit()));
  await client.put('account').value(1);
  const add = () =>
    client.stm({ retries: 20 }).transact(async tx => {
      await tx.put('account').value(1 + Number(await tx.get('account')));
    });
  await Promise.all([add(), add(), add(), add()]);
  tell('txn stm', await client.get('account'));
}

async function lease(client) {
  const lease = client.lease(30);
  await lease.put('leased').value('x');
  const renewed = await lease.keepaliveOnce();
  const about = await client.leaseClient.leaseTimeToLive({ ID: await lease.grant(), keys: true });
  tell('lease', renewed.TTL, about.grantedTTL, about.keys.map(String));
  await lease.revoke();
  tell('lease revoked', await client.get('leased'), await refused(lease.keepaliveOnce()).then(text => text.split(':')[0]));
  tell('lease unknown', await refused(client.put('leased').value('x').lease(12345).exec()));
  const lost = client.lease(1);
  // The client may hear of it from a keep-alive, before the answer to the revoke.
  const heard = once(lost, 'lost');
  await client.leaseClient.leaseRevoke({ ID: await lost.grant() });
  tell('lease lost', (await heard)[0].constructor.name);
  const watcher = await client.watch().key('expires').create();
  const expired = once(watcher, 'delete');
  const short = client.lease(1, { autoKeepAlive: false });
  await short.put('expires').value('x');
  await expired;
  tell('lease expired', await client.get('expires'));
  await watcher.cancel();
}

async function lock(client) {
  const held = await client.lock('name').ttl(30).acquire();
  tell('lock', await refused(client.lock('name').acquire()));
  await held.release();
  tell('lock released', await client.lock('name').do(async () => 'worked under the lock'));
}

async function election(client) {
  const election = client.election('name', 30);
  const first = election.campaign('first');
  await first.wait();
  const observer = await election.observe();
  const second = election.campaign('second');
  await first.proclaim('first again');
  while (observer.leader() !== 'first again') await once(observer, 'change');
  tell('election', observer.leader(), await election.leader());
  await Promise.all([second.wait(), first.resign()]);
  while (observer.leader() !== 'second') await once(observer, 'change');
  tell('election resigned', await election.leader());
  await second.resign();
  await observer.cancel();
  tell('election over', (await election.leader()) ?? 'nobody');
}

// The client opens its watches again by itself.
async function watch(client) {
  const kept = client.lease(60);
  await kept.put('watched/leased').value('x');
  const watcher = await client.watch().prefix('watched/').withPreviousKV().create();
  const seen = [];
  let grown = () => {};
  watcher.on('data', response => {
    for (const { type, kv, prev_kv } of response.events) {
      seen.push([type, `${kv.key}`, `${kv.value}`, prev_kv && `${prev_kv.value}`]);
    }
    grown();
  });
  const reached = async count => {
    while (seen.length < count) await new Promise(done => (grown = done));
  };
  await client.put('watched/a').value(1);
  await reached(1);
  await restart();
  await until(() => client.put('watched/a').value(2).exec());
  await client.delete().key('watched/leased');
  await reached(3);
  tell('watch', seen);
  await watcher.cancel();
  tell('watch lease', (await until(() => kept.keepaliveOnce())).TTL);
  await kept.revoke();
  const now = (await client.get('watched/a').exec()).header.revision;
  await client.kv.compact({ revision: now, physical: true });
  const old = client.watch().key('watched/a').startRevision('1').watcher();
  tell('watch compacted', (await once(old, 'error'))[0].message);
  tell('read compacted', await refused(client.get('watched/a').revision(2).exec()));
}

const read = name => fs.readFileSync(path.join(pki, name));

function secure(username, password = PASSWORD) {
  const own = { privateKey: read('client-key.pem'), certChain: read('client.pem') };
  const auth = username && { username, password };
  return new Etcd3({ hosts: `https://127.0.0.1:${https}`, credentials: { rootCertificate: read('ca.pem'), ...own }, auth });
}

async function tls() {
  const hosts = `https://127.0.0.1:${https}`;
  const nobody = new Etcd3({ hosts, credentials: { rootCertificate: read('ca.pem') } });
  tell('tls without a certificate', (await refused(nobody.get('a').exec())).split(':')[0]);
  nobody.close();
  const client = secure();
  await client.put('tls').value('x');
  tell('tls', await client.get('tls'));
  client.close();
}

async function auth(plain) {
  const writer = await plain.role('writer').create();
  await writer.grant({ permission: 'Readwrite', range: plain.range({ prefix: 'mine/' }) });
  tell('auth again', await refused(writer.create()), await refused(plain.user('bob').roles()));
  await (await plain.role('root').create()).addUser(await plain.user('root').create(PASSWORD));
  await writer.addUser(await plain.user('alice').create(PASSWORD));
  const [{ permission, range }] = await writer.permissions();
  tell('auth set up', permission, `${range.start} ${range.end}`, (await plain.getUsers()).map(user => user.name));
  await plain.auth.authEnable();
  tell('auth', await refused(plain.get('mine/a').exec()));
  const [alice, wrong, nameless] = [secure('alice'), secure('alice', 'wrong'), secure()];
  tell('auth wrong password', await refused(wrong.get('mine/a').exec()));
  await alice.put('mine/a').value('by alice');
  tell('auth alice', await alice.get('mine/a'));
  tell('auth denied', await refused(alice.put('yours').value('x').exec()), await refused(alice.getAll().exec()));
  const forbidden = alice.watch().key('yours').watcher();
  tell('auth denied watch', (await once(forbidden, 'error'))[0].message);
  // The certificate's common name is alice, too.
  tell('auth certificate', await nameless.get('mine/a'), await refused(nameless.get('yours').exec()));
  await restart();
  // Tokens are lost with the server; the client asks for another by itself.
  tell('auth token lost', await until(() => alice.get('mine/a').string()));
  const root = secure('root');
  await root.auth.authDisable();
  const found = await until(() => plain.get('mine/a').string());
  tell('auth disabled', found, await refused(secure('alice').get('mine/a').exec()));
}

async function main() {
  const client = new Etcd3({ hosts: `127.0.0.1:${http}` });
  for (const part of [kv, txn, lease, lock, election, watch]) await part(client);
  await tls();
  await auth(client);
}

setTimeout(() => process.exit(3), LIMIT_MS).unref();
main().then(
  () => process.exit(0),
  error => {
    console.error(error);
    process.exit(1);
  },
);
